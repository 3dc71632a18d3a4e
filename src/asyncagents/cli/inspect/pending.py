"""`asyncagents pending`: list pending calls of async tools."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.lookup import find_session
from asyncagents.cli.options import data_dir_option, data_directory, json_option
from asyncagents.cli.run.result import open_call_text
from asyncagents.cli.terminal.screen import ago, print_table, time_left
from asyncagents.cli.terminal.tool_line import tool_call_text
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

    from asyncagents.cli.lookup import with_runtime

    known = cast("PendingStatus", status)
    found = asyncio.run(
        with_runtime(
            data_directory(data_dir),
            lambda runtime: list_pending(runtime, known, session, limit),
            nothing=NONE,
        )
    )
    print_json(found) if as_json else print_rows(found, known)


class PendingRow(Struct, frozen=True):
    pending: PendingToolCall
    call: Call | None
    """The call row while it is open: its note, and whom it asks."""


async def list_pending(
    runtime: Runtime, status: PendingStatus, session: str | None, limit: int
) -> tuple[PendingRow, ...]:
    if session is None:
        found = list(await runtime.async_tools.list(status, limit=limit))
    else:
        found = []
        for session_id in await _subtree_ids(runtime, (await find_session(runtime, session)).id):
            found += await runtime.async_tools.list(status, session_id, limit=limit)
    found = sorted(found, key=lambda each: each.id)[:limit]
    known = {
        call.id: call
        for each in {each.session_id for each in found}
        for call in await _open_calls(runtime, each)
    }
    return tuple(PendingRow(each, known.get(each.id)) for each in found)


async def _subtree_ids(runtime: Runtime, session_id: SessionId) -> list[SessionId]:
    below = [session_id]
    for child in await runtime.children(session_id):
        below += await _subtree_ids(runtime, child.id)
    return below


async def _open_calls(runtime: Runtime, session_id: SessionId) -> Sequence[Call]:
    return await runtime.open_calls(session_id)


NONE: tuple[PendingRow, ...] = ()


def print_rows(found: Sequence[PendingRow], status: PendingStatus) -> None:
    now = SystemClock().now()
    print_table([tuple(_cells(pending_row, now)) for pending_row in found], flexible=4)
    if not found:
        click.echo(f"no call is {status}" if status != "waiting" else "no call waits for a result", err=True)


def _cells(pending_row: PendingRow, now: int) -> Iterator[str]:
    tool_call = pending_row.pending
    yield tool_call.id
    yield ago(tool_call.time.completed or tool_call.time.created, now)
    yield time_left(tool_call.timeout, now) if tool_call.time.completed is None else ""
    yield tool_call.tool
    yield _what(pending_row)
    yield tool_call.external_ref or ""
    yield tool_call.session_id


def _what(pending_row: PendingRow) -> str:
    tool_call = pending_row.pending
    if tool_call.result is not None:
        return f"-> {tool_call.result.title or tool_call.result.output}"
    if tool_call.error is not None:
        return f"failed: {tool_call.error}"
    text = open_call_text(pending_row.call) if pending_row.call is not None else ""
    return text or tool_call_text(tool_call.tool, tool_call.input)


def print_json(found: Sequence[PendingRow]) -> None:
    click.echo(msgspec.json.encode([_builtins(pending_row) for pending_row in found]))


def _builtins(pending_row: PendingRow) -> dict[str, Any]:
    """Return the pending call as JSON, with the note and questions that the table shows."""
    row: dict[str, Any] = msgspec.json.decode(encode(pending_row.pending))
    state = pending_row.call.open if pending_row.call else None
    if state is None or pending_row.call is None:
        return row
    row |= {"note": state.note, "who": state.who}
    if state.question is not None:
        row |= {"ask": pending_row.call.ask_id, "questions": [q.question for q in state.question.questions]}
    return row
