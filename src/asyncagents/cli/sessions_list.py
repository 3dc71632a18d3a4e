"""Prints sessions with their status, as a table or JSON."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.screen import ago, amount, dollars, print_table
from asyncagents.config.system import SystemClock
from asyncagents.domain.id import SessionId
from asyncagents.domain.session import Session
from asyncagents.domain.shape import encode
from asyncagents.domain.status import Busy, Idle, Retry, Status, WaitingAsync
from asyncagents.engine.runtime import Runtime
from asyncagents.engine.tasks import ANY


class Listed(Struct, frozen=True):
    session: Session
    status: Status
    word: str
    """The status for people, which also says whether a process runs the session."""


NONE: tuple[Listed, ...] = ()


async def listed(runtime: Runtime, directory: Path | None, limit: int) -> tuple[Listed, ...]:
    parents = {task.parent_session_id for task in await runtime.tasks.list(live=True)}
    found = await runtime.roots(directory, limit=limit)
    rows = []
    for session in found:
        status = await runtime.status(session.id)  # only of the listed ones: a million may wait
        word = await status_word(runtime, session.id, status, launched=session.id in parents)
        rows.append(Listed(session, status, word))
    return tuple(rows)


async def status_word(
    runtime: Runtime, session_id: SessionId, status: Status, *, launched: bool = False
) -> str:
    """Return the status for people; `launched`: the session has live tasks."""
    match status:
        case Idle():
            return "tasks" if launched else "idle"
        case Retry():
            return "retry"
        case WaitingAsync():
            asks = any(call.asking for call in await runtime.open_calls(session_id))
            return "asks" if asks else "waiting"
        case Busy():
            if any(call.asking for call in await runtime.open_calls(session_id)):
                return "asks"
            taken = runtime.tasks.served_elsewhere(ANY) or await runtime.is_run(session_id)
            return "busy" if taken else "left"


def print_rows(found: Sequence[Listed], *, everywhere: bool) -> None:
    now = SystemClock().now()
    rows = []
    for each in found:
        info = each.session
        where = (info.directory,) if everywhere else ()
        when, spent = ago(info.time.updated, now), f"{amount(info.tokens)} tokens"
        rows.append((info.id, each.word, when, spent, dollars(info.cost), *where, info.title))
    print_table(rows, flexible=len(rows[0]) - 1)


def print_json(found: Sequence[Listed]) -> None:
    """Print each session as stored, with its status."""
    rows = [
        {**msgspec.json.decode(encode(each.session)), "status": msgspec.to_builtins(each.status)}
        for each in found
    ]
    click.echo(msgspec.json.encode(rows))
