"""Lists what a project's files ask for that needs trust: in a few lines by kind, or each setting in full."""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from asyncagents.config.env import Environment
from asyncagents.config.file.builtin_providers import known_providers
from asyncagents.config.file.interpolate import tokens_in
from asyncagents.config.file.redact import is_hidden
from asyncagents.config.file.source import sifted
from asyncagents.config.file.untrusted import Sifted
from asyncagents.config.markdown.agents import Kind, definition_folders, markdown_files, trusted_folders
from asyncagents.config.paths import Place, places
from asyncagents.config.tree import KeyPath, Leaf, dotted, grow, leaves
from asyncagents.plugins.find import project_files

MOST_OF_A_KIND = 4
LONGEST = 160
KINDS = ("model", "provider", "mcp", "plugin", "tool", "allow", "reads", "agent", "command", "skill", "other")

WishKind: TypeAlias = Literal[
    "model", "provider", "mcp", "plugin", "tool", "allow", "reads", "agent", "command", "skill", "other"
]


class Setting(Struct, frozen=True):
    """One setting that needs trust; secrets are masked, and variables are not expanded."""

    file: str
    key: str
    value: Any


class Wish(Struct, frozen=True):
    """One thing that a project asks for, in words; the text is untrusted input."""

    kind: WishKind
    text: str


def settings_wanted(environment: Environment, directory: Path, root: Path) -> Iterator[Setting]:
    """Yield every setting and file that applies only in a trusted project."""
    for kind in ("plugins", "tools"):
        for file in project_files(environment, directory, kind):
            yield Setting(str(file), kind, "Python, run by every session here")
    for place, found in _sifted(environment, directory, root):
        for top, value in found.left_out:
            for path, leaf in _leaves(top, value):
                shown = "***" if is_hidden(path, leaf) else leaf
                yield Setting(place.label, dotted(path), shown)


def wishes(environment: Environment, directory: Path, root: Path) -> list[Wish]:
    """Describe what the project asks for, without duplicates, sorted by kind."""
    found = [*_of_files(environment, directory, root)]
    for _, each in _sifted(environment, directory, root):
        found += _of_config(each)
    return sorted(dict.fromkeys(found), key=lambda wish: KINDS.index(wish.kind))


def wish_lines(found: Sequence[Wish], *, whole: bool = False) -> tuple[list[str], bool]:
    """Render a line for each request, a few of each kind and a count; also return whether any was cut."""
    lines: list[str] = []
    cut = False
    for kind, group in groupby(found, key=lambda wish: wish.kind):
        texts = [visible(wish.text) for wish in group]
        shown = texts if whole else texts[:MOST_OF_A_KIND]
        for number, text in enumerate(shown):
            short = whole or len(text) <= LONGEST
            cut = cut or not short
            words = text if short else f"{text[:LONGEST]}… ({len(text)} characters)"
            lines.append(f"  {'' if number else kind:<10}{words}")
        if len(texts) > len(shown):
            cut = True
            lines.append(f"  {'':<10}… and {len(texts) - len(shown)} more")
    return lines, cut


def visible(text: str) -> str:
    """Escape unprintable and bidirectional characters, such as `\\x1b`, for a terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode()
        for letter in text
    )


def _sifted(environment: Environment, directory: Path, root: Path) -> Iterator[tuple[Place, Sifted]]:
    for place in places(environment, directory):
        found = sifted(place, root) if place.scope == "project" else None
        if found is not None:
            yield place, found


def _leaves(top: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Any]]:
    for path, leaf in leaves(grow({"": value}, lambda path, below: Leaf(below, ""))):
        yield (*top, *path[1:]), leaf.value


def _of_config(found: Sifted) -> Iterator[Wish]:
    kept = found.kept if isinstance(found.kept, dict) else {}
    for key in ("model", "small_model"):
        if kept.get(key):
            yield Wish("model", _text(kept[key]))
    for path, value in found.left_out:
        yield from _of_key(path, value)
        for below, leaf in _leaves(path, value):
            for token in _tokens(leaf):
                yield Wish("reads", f"{token} for {dotted(below)}")


def _of_key(path: KeyPath, value: Any) -> Iterator[Wish]:
    entry = value if isinstance(value, dict) else {}
    match path:
        case ("provider", name):
            yield Wish("provider", _provider(name, entry))
        case ("mcp", name):
            yield Wish("mcp", _mcp(name, entry))
        case ("plugin", *_) if isinstance(value, list):
            for each in value:
                yield Wish("plugin", _text(each[0] if isinstance(each, list) and each else each))
        case ("permission" | "tools", *rule):
            yield Wish("allow", ": ".join(rule) or "everything")
        case ("agent" | "mode", name, "permission" | "tools", *rule):
            yield Wish("allow", f"{': '.join(rule) or 'everything'}, to the agent {name}")
        case ("agent" | "command" as kind, name, *rest):
            yield Wish(kind, f"{name}.{'.'.join(rest)}" if rest else name)
        case _:
            yield Wish("other", dotted(path[:2]))


def _provider(name: str, entry: dict[str, Any]) -> str:
    """Describe where requests would go, and with which of the user's keys."""
    options = entry.get("options")
    url = options.get("baseURL") if isinstance(options, dict) else None
    known = known_providers().get(name)
    keys = entry.get("env") or (known.env if known else [])
    sent = f", sent the key {', '.join(map(_text, keys))}" if keys and isinstance(keys, list) else ""
    if url is not None:
        return f"{name} at {_url(url)}{sent}"
    return f"{name}{sent}"


def _mcp(name: str, entry: dict[str, Any]) -> str:
    command = entry.get("command")
    if isinstance(command, list):
        return f"{name} runs {shlex.join(map(_text, command))}"
    return f"{name} at {_url(entry['url'])}" if "url" in entry else f"{name} {_text(entry or '')}"


def _url(url: Any) -> str:
    """Escape non-ASCII lookalike letters, and hide the query, which may hold a key."""
    address, mark, _ = _text(url).partition("?")
    return ascii(address)[1:-1] + ("?…" if mark else "")


def _tokens(value: Any) -> list[str]:
    if isinstance(value, list):
        return [token for each in value for token in _tokens(each)]
    if isinstance(value, dict):
        return [token for each in value.values() for token in _tokens(each)]
    return tokens_in(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _of_files(environment: Environment, directory: Path, root: Path) -> Iterator[Wish]:
    for kind in ("plugins", "tools"):
        for file in project_files(environment, directory, kind):
            yield Wish("plugin" if kind == "plugins" else "tool", f"runs {_below(file, root)}")
    definitions: tuple[Kind, ...] = ("agent", "command", "skill")
    for definition in definitions:
        only = "SKILL.md" if definition == "skill" else None
        folders = definition_folders(environment, directory, definition)
        for folder in trusted_folders(folders, trusted=False)[1]:
            for path in markdown_files(folder.path, [], only=only):
                yield Wish(definition, _below(path, root))


def _below(path: Path, root: Path) -> str:
    return os.path.relpath(path, root)
