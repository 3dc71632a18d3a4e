"""What `asyncagents trust` does and says."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from asyncagents.cli.exit import USAGE, Complaint
from asyncagents.cli.screen import one_line, plain
from asyncagents.config.env import Environment, system_environment
from asyncagents.config.place import places
from asyncagents.config.source import sifted
from asyncagents.config.tree import Leaf, dotted, grow, leaves
from asyncagents.config.trust import distrust, is_trusted, project_root, trust, trusted_roots
from asyncagents.config.veil import is_hidden
from asyncagents.plugins.find import project_files


class Wish(Struct, frozen=True):
    """One setting that takes trust; a key is stars, and nothing is filled in."""

    file: str
    key: str
    value: Any


def show_all(*, as_json: bool) -> None:
    roots = [str(root) for root in trusted_roots(system_environment())]
    if as_json:
        click.echo(json.dumps({"trusted": roots}))
    for root in [] if as_json else roots:
        click.echo(plain(root))


def add(directory: Path, *, as_json: bool) -> None:
    if not directory.is_dir():
        raise Complaint(f"{directory} is not a directory", hint="name the project's directory", code=USAGE)
    environment = system_environment()
    root = project_root(environment, directory)
    wishes = list(_wishes(environment, directory, root))
    trust(environment, root)
    if as_json:
        rows = [{"file": wish.file, "key": wish.key, "value": wish.value} for wish in wishes]
        click.echo(json.dumps({"root": str(root), "trusted": True, "asks_for": rows}))
        return
    for wish in wishes:
        click.echo(one_line(f"{wish.file}: {wish.key} = {json.dumps(wish.value, ensure_ascii=False)}"))
    click.echo(plain(f"{root} is trusted; `asyncagents trust --remove` takes it back"))


def drop(directory: Path, *, as_json: bool) -> None:
    environment = system_environment()
    root = project_root(environment, directory)
    was = distrust(environment, root)
    still = [each for each in trusted_roots(environment) if each in root.parents]
    if still:
        raise Complaint(
            f"{root} is still trusted, as it lies in {still[0]}",
            hint=f"`asyncagents trust --remove {still[0]}`",
            code=USAGE,
        )
    if as_json:
        click.echo(json.dumps({"root": str(root), "trusted": is_trusted(environment, directory)}))
    else:
        click.echo(plain(f"{root} {'is no longer' if was else 'was not'} trusted"))


def _wishes(environment: Environment, directory: Path, root: Path) -> Iterator[Wish]:
    for kind in ("plugins", "tools"):
        for file in project_files(environment, directory, kind):
            yield Wish(str(file), kind, "Python, run by every session here")
    for place in places(environment, directory):
        found = sifted(place, root) if place.scope == "project" else None
        for top, value in found.left_out if found else ():
            inner = grow({"": value}, lambda path, below: Leaf(below, ""))
            for path, leaf in leaves(inner):
                whole = (*top, *path[1:])
                shown = "***" if is_hidden(whole, leaf.value) else leaf.value
                yield Wish(place.label, dotted(whole), shown)
