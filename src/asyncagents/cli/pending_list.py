"""Prints pending calls as a table or JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.run_result import what_of
from asyncagents.cli.screen import ago, left, print_table
from asyncagents.cli.task_find import find
from asyncagents.cli.tool_line import named
from asyncagents.config.system import SystemClock
from asyncagents.domain.call import Call
from asyncagents.domain.id import SessionId
from asyncagents.domain.pending_tool import PendingStatus, PendingToolCall
from asyncagents.domain.shape import encode
from asyncagents.engine.runtime import Runtime


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
