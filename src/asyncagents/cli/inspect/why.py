"""`asyncagents why`: explain why a session does not proceed, down to the tasks that it waits for."""

import re
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.lookup import find_session
from asyncagents.cli.options import data_dir_option, data_directory, json_option
from asyncagents.cli.terminal.labels import session_label
from asyncagents.cli.terminal.screen import one_line
from asyncagents.domain.id import SessionId
from asyncagents.domain.why import Why
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import Damaged, NotFound


@click.command()
@click.argument("id")
@json_option
@data_dir_option
def why(*, id: str, as_json: bool, data_dir: Path | None) -> None:
    """Explain why a session or task does not proceed.

    Prints a code and a sentence. If the session waits for tasks, the reason of each task follows. ID may be a
    unique prefix, and `ses_` may be left out.
    """
    import asyncio

    from asyncagents.cli.lookup import unknown_session, with_runtime

    found = asyncio.run(
        with_runtime(data_directory(data_dir), lambda runtime: read_chain(runtime, id), nothing=None)
    )
    if found is None:
        raise unknown_session(id)
    print_json(found) if as_json else print_reasons(found)


_COMMAND = re.compile(r": (run it|start one)\b.* with `asyncagents [^`]+`")
MAX_SHOWN = 10
"""Reasons printed below one session; --json has all."""


class WhyNode(Struct, frozen=True):
    title: str
    why: Why
    below: tuple["WhyNode", ...] = ()


async def read_chain(runtime: Runtime, start: str) -> WhyNode:
    try:
        session_id = (await find_session(runtime, start)).id
    except Damaged:  # a complete id can still be explained
        session_id = SessionId(start if start.startswith("ses_") else f"ses_{start}")
    return await _read_node(runtime, session_id)


async def _read_node(runtime: Runtime, session_id: SessionId) -> WhyNode:
    """Read a reason and those below it; terminates, as a task never waits for an ancestor."""
    why = await runtime.tasks.why(session_id)
    below = []
    for each in why.on:
        if each.startswith("ses_"):
            try:
                below.append(await _read_node(runtime, SessionId(each)))
            except NotFound:  # it was deleted just now
                continue
    return WhyNode(await _title(runtime, session_id), why, tuple(below))


async def _title(runtime: Runtime, session_id: SessionId) -> str:
    try:
        return session_label(await runtime.session(session_id))
    except Damaged:
        return ""


def print_reasons(node: WhyNode, indent: str = "", named: set[str] | None = None) -> None:
    """Print a reason and those below it; a command already suggested above is left out."""
    named = set() if named is None else named
    click.echo(f"{indent}{node.why.session_id}  {one_line(node.title)}".rstrip())
    click.echo(
        f"{indent}  {node.why.code}: {_drop_repeated_command(one_line(node.why.sentence, 1000), named)}"
    )
    for each in node.below[:MAX_SHOWN]:
        print_reasons(each, f"{indent}    ", named)
    if len(node.below) > MAX_SHOWN:
        click.echo(f"{indent}    … and {len(node.below) - MAX_SHOWN} more; --json has them all")


def _drop_repeated_command(sentence: str, named: set[str]) -> str:
    found = _COMMAND.search(sentence)
    if found is None:
        return sentence
    if found[0] in named:
        return sentence.replace(found[0], "")
    named.add(found[0])
    return sentence


def print_json(node: WhyNode) -> None:
    click.echo(msgspec.json.encode(_builtins(node)))


def _builtins(node: WhyNode) -> dict[str, Any]:
    return {
        "session": node.why.session_id,
        "title": node.title,
        "code": node.why.code,
        "sentence": node.why.sentence,
        "on": list(node.why.on),
        "below": [_builtins(each) for each in node.below],
    }
