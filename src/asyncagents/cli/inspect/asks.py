"""`asyncagents asks`: list open asks, and calls that wait for an outside result."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.ask.always_scope import describe_scope
from asyncagents.cli.ask.view import lineage_text
from asyncagents.cli.options import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)
from asyncagents.cli.run.result import open_call_text, wait_of
from asyncagents.cli.terminal.screen import ago, print_table, time_left
from asyncagents.cli.terminal.tool_line import tool_call_text
from asyncagents.config.clock import SystemClock
from asyncagents.domain.call.call import Call
from asyncagents.domain.call.waiting import WaitingCall, describe_open_call
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

    from asyncagents.cli.lookup import with_runtime

    scope = AskScope(session, None if everywhere or session else project_folder(directory))
    asks = asyncio.run(
        with_runtime(data_directory(data_dir), lambda runtime: list_asks(runtime, scope), nothing=NONE)
    )
    print_json(asks) if as_json else print_all(asks, scope)


class AskScope(Struct, frozen=True):
    """One tree, one directory, or (both None) everything."""

    session: str | None
    directory: Path | None


class AskList(Struct, frozen=True):
    asks: tuple[WaitingCall, ...] = ()
    calls: tuple[WaitingCall, ...] = ()
    """Calls that wait for an outside result, not for a person."""


NONE = AskList()


async def list_asks(runtime: Runtime, scope: AskScope) -> AskList:
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
                WaitingCall(call, lineage)
                for call in open_calls
                if not call.asking and call.open and call.open.kind != "task"
            ]
    return AskList(tuple(sorted(asks, key=_since)), tuple(sorted(calls, key=_since)))


def _is_in(session: Session, scope: AskScope) -> bool:
    return scope.directory is None or session.directory == str(scope.directory)


async def _lineage(runtime: Runtime, session: Session) -> tuple[Session, ...]:
    if session.parent_id is None:
        return (session,)
    return (*await _lineage(runtime, await runtime.session(session.parent_id)), session)


def _since(waiting: WaitingCall) -> int:
    return waiting.call.open.since if waiting.call.open else 0


def print_all(asks: AskList, scope: AskScope) -> None:
    _print_rows(asks.asks)
    _print_always(asks.asks)
    if asks.calls:
        click.echo(("\n" if asks.asks else "") + "waiting for an outside result:")
        _print_rows(asks.calls)
    if not asks.asks:
        where = f" in {scope.directory}; --all looks everywhere" if scope.directory else ""
        click.echo(f"no open asks{where}", err=True)


def _print_rows(rows: Sequence[WaitingCall]) -> None:
    now = SystemClock().now()
    print_table([(*_cells(each, now), lineage_text(each.lineage)) for each in rows], flexible=3)


def _print_always(rows: Sequence[WaitingCall]) -> None:
    """Print what `always` allows for each ask, for people who answer by id."""
    asked = [state.ask for each in rows if (state := each.call.open) and state.ask and state.ask.always]
    if asked:
        click.echo("\nthe answer `always` allows, in the project from then on:")
    for ask in asked:
        click.echo(f"{ask.id}  {describe_scope(ask.permission, ask.always, exact=ask.exact)}")


def _cells(waiting: WaitingCall, now: int) -> tuple[str, ...]:
    call = waiting.call
    until = f" ({time_left(waiting.until, now)})" if waiting.until is not None else ""
    what = open_call_text(call) or tool_call_text(call.tool, call.input)
    return _id(call), ago(_since(waiting), now), call.tool, f"{what}{until}"


def _id(call: Call) -> str:
    return call.ask_id if call.asking and call.ask_id else call.id


def print_json(asks: AskList) -> None:
    rows = {"asks": [_row(each) for each in asks.asks], "calls": [_row(each) for each in asks.calls]}
    click.echo(msgspec.json.encode(rows))


def _row(waiting: WaitingCall) -> dict[str, Any]:
    call, state = waiting.call, waiting.call.open
    assert state is not None, "a waiting call is open"
    request = state.ask or state.question
    return {
        **msgspec.to_builtins(wait_of(describe_open_call(call))),
        "id": _id(call),
        "since": state.since,
        "due": state.due,
        "input": call.input,
        "request": msgspec.json.decode(encode(request)) if request is not None else None,
        "lineage": [{"id": each.id, "title": each.title} for each in waiting.lineage],
    }
