"""`asyncagents pending`: list pending calls of async tools."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.lookup import find
from asyncagents.cli.options import data_dir_option, data_directory, json_option
from asyncagents.cli.run.result import what_of
from asyncagents.cli.terminal.screen import ago, left, print_table
from asyncagents.cli.terminal.tool_line import named
from asyncagents.config.clock import SystemClock
from asyncagents.domain.call.call import Call
from asyncagents.domain.call.pending_tool import PendingStatus, PendingToolCall
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.engine.runtime.runtime import Runtime


@click.command()
@click.option("--session", "-s", metavar="ID", help="Only this session and all below it.")
@click.option(
    "--status",
    type=click.Choice(["waiting", "processing", "completed", "failed", "expired"]),
    default="waiting",
    help="Only calls in this state; default: waiting.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=100, help="Maximum number; default: 100.")
@json_option
@data_dir_option
def pending(*, session: str | None, status: str, limit: int, as_json: bool, data_dir: Path | None) -> None:
    """List pending calls of async tools, oldest first.

    Columns: id, age, time left, tool, note or question and whom it asks, external reference, session.
    `asyncagents submit ID RESULT` submits a result, `asyncagents cancel ID` cancels the call; a call that
    asks a person can also be answered with `asyncagents answer`.
    """
    import asyncio

    from asyncagents.cli.lookup import look

    known = cast("PendingStatus", status)
    found = asyncio.run(
        look(data_directory(data_dir), lambda runtime: listed(runtime, known, session, limit), nothing=NONE)
    )
    print_json(found) if as_json else print_rows(found, known)


class Listed(Struct, frozen=True):
    pending: PendingToolCall
    call: Call | None
    """The call row while it is open: its note, and whom it asks."""


async def listed(
    runtime: Runtime, status: PendingStatus, session: str | None, limit: int
) -> tuple[Listed, ...]:
    if session is None:
        found = list(await runtime.async_tools.list(status, limit=limit))
    else:
        found = []
        for session_id in await _below(runtime, (await find(runtime, session)).id):
            found += await runtime.async_tools.list(status, session_id, limit=limit)
    found = sorted(found, key=lambda each: each.id)[:limit]
    known = {
        call.id: call for each in {each.session_id for each in found} for call in await _open(runtime, each)
    }
    return tuple(Listed(each, known.get(each.id)) for each in found)


async def _below(runtime: Runtime, session_id: SessionId) -> list[SessionId]:
    below = [session_id]
    for child in await runtime.children(session_id):
        below += await _below(runtime, child.id)
    return below


async def _open(runtime: Runtime, session_id: SessionId) -> Sequence[Call]:
    return await runtime.open_calls(session_id)


NONE: tuple[Listed, ...] = ()


def print_rows(found: Sequence[Listed], status: PendingStatus) -> None:
    now = SystemClock().now()
    print_table([tuple(_cells(each, now)) for each in found], flexible=4)
    if not found:
        click.echo(f"no call is {status}" if status != "waiting" else "no call waits for a result", err=True)


def _cells(each: Listed, now: int) -> Iterator[str]:
    told = each.pending
    yield told.id
    yield ago(told.time.completed or told.time.created, now)
    yield left(told.timeout, now) if told.time.completed is None else ""
    yield told.tool
    yield _what(each)
    yield told.external_ref or ""
    yield told.session_id


def _what(each: Listed) -> str:
    told = each.pending
    if told.result is not None:
        return f"-> {told.result.title or told.result.output}"
    if told.error is not None:
        return f"failed: {told.error}"
    said = what_of(each.call) if each.call is not None else ""
    return said or named(told.tool, told.input)


def print_json(found: Sequence[Listed]) -> None:
    click.echo(msgspec.json.encode([_builtins(each) for each in found]))


def _builtins(each: Listed) -> dict[str, Any]:
    """Return the pending call as JSON, with the note and questions that the table shows."""
    row: dict[str, Any] = msgspec.json.decode(encode(each.pending))
    state = each.call.open if each.call else None
    if state is None or each.call is None:
        return row
    row |= {"note": state.note, "who": state.who}
    if state.question is not None:
        row |= {"ask": each.call.ask_id, "questions": [q.question for q in state.question.questions]}
    return row
