"""`asyncagents asks`: list open asks, and calls that wait for an outside result."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.ask.always_scope import covered
from asyncagents.cli.ask.view import lineage_text
from asyncagents.cli.options import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)
from asyncagents.cli.run.result import wait_of, what_of
from asyncagents.cli.terminal.screen import ago, left, print_table
from asyncagents.cli.terminal.tool_line import named
from asyncagents.config.clock import SystemClock
from asyncagents.domain.call.call import Call
from asyncagents.domain.call.waiting import Waiting, awaited
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.shape import encode
from asyncagents.engine.runtime.runtime import Runtime


@click.command()
@click.option("--session", "-s", metavar="ID", help="Only the tree of this session.")
@click.option("--all", "everywhere", is_flag=True, help="List those of all directories.")
@json_option
@directory_option
@data_dir_option
def asks(
    *, session: str | None, everywhere: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List open asks, the newest last.

    `asyncagents answer ID` answers one. Calls that wait for an outside result are listed separately: they
    take no answer.
    """
    import asyncio

    from asyncagents.cli.lookup import look

    scope = Scope(session, None if everywhere or session else project_folder(directory))
    found = asyncio.run(look(data_directory(data_dir), lambda runtime: listed(runtime, scope), nothing=NONE))
    print_json(found) if as_json else print_all(found, scope)


class Scope(Struct, frozen=True):
    """One tree, one directory, or (both None) everything."""

    session: str | None
    directory: Path | None


class Found(Struct, frozen=True):
    asks: tuple[Waiting, ...] = ()
    calls: tuple[Waiting, ...] = ()
    """Calls that wait for an outside result, not for a person."""


NONE = Found()


async def listed(runtime: Runtime, scope: Scope) -> Found:
    root_id = None
    if scope.session is not None:
        root_id = await runtime.root_of((await runtime.find_session(scope.session)).id)
    asks = [each for each in await runtime.asks(root_id) if _is_in(each.lineage[-1], scope)]
    calls = []
    for session_id in await runtime.statuses(root_id):
        lineage = await _lineage(runtime, await runtime.session(session_id))
        if _is_in(lineage[-1], scope):
            open_calls = await runtime.open_calls(session_id)
            calls += [
                Waiting(call, lineage)
                for call in open_calls
                if not call.asking and call.open and call.open.kind != "task"
            ]
    return Found(tuple(sorted(asks, key=_since)), tuple(sorted(calls, key=_since)))


def _is_in(session: Session, scope: Scope) -> bool:
    return scope.directory is None or session.directory == str(scope.directory)


async def _lineage(runtime: Runtime, session: Session) -> tuple[Session, ...]:
    if session.parent_id is None:
        return (session,)
    return (*await _lineage(runtime, await runtime.session(session.parent_id)), session)


def _since(waiting: Waiting) -> int:
    return waiting.call.open.since if waiting.call.open else 0


def print_all(found: Found, scope: Scope) -> None:
    _print_rows(found.asks)
    _print_lasting(found.asks)
    if found.calls:
        click.echo(("\n" if found.asks else "") + "waiting for an outside result:")
        _print_rows(found.calls)
    if not found.asks:
        where = f" in {scope.directory}; --all looks everywhere" if scope.directory else ""
        click.echo(f"no open asks{where}", err=True)


def _print_rows(rows: Sequence[Waiting]) -> None:
    now = SystemClock().now()
    print_table([(*_cells(each, now), lineage_text(each.lineage)) for each in rows], flexible=3)


def _print_lasting(rows: Sequence[Waiting]) -> None:
    """Print what `always` would allow for each ask, for people who answer by id."""
    asked = [state.ask for each in rows if (state := each.call.open) and state.ask and state.ask.always]
    if asked:
        click.echo("\nthe answer always would allow, in the project from then on:")
    for ask in asked:
        click.echo(f"{ask.id}  {covered(ask.permission, ask.always, exact=ask.exact)}")


def _cells(waiting: Waiting, now: int) -> tuple[str, ...]:
    call = waiting.call
    until = f" ({left(waiting.until, now)})" if waiting.until is not None else ""
    what = what_of(call) or named(call.tool, call.input)
    return _id(call), ago(_since(waiting), now), call.tool, f"{what}{until}"


def _id(call: Call) -> str:
    return call.ask_id if call.asking and call.ask_id else call.id


def print_json(found: Found) -> None:
    rows = {"asks": [_row(each) for each in found.asks], "calls": [_row(each) for each in found.calls]}
    click.echo(msgspec.json.encode(rows))


def _row(waiting: Waiting) -> dict[str, Any]:
    call, state = waiting.call, waiting.call.open
    assert state is not None, "a waiting call is open"
    request = state.ask or state.question
    return {
        **msgspec.to_builtins(wait_of(awaited(call))),
        "id": _id(call),
        "since": state.since,
        "due": state.due,
        "input": call.input,
        "request": msgspec.json.decode(encode(request)) if request is not None else None,
        "lineage": [{"id": each.id, "title": each.title} for each in waiting.lineage],
    }
