"""`asyncagents sessions`: list root sessions with their status."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.options import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)
from asyncagents.cli.terminal.screen import ago, dollars, print_table, token_text
from asyncagents.config.clock import SystemClock
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.status import Busy, Idle, Retry, Status, WaitingAsync
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.why import CLAIM_GRACE_MS
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.runtime.tasks import ANY_POOL

LIMIT = 20
StatusWord: TypeAlias = Literal["idle", "busy", "left", "asks", "waiting", "tasks", "retry"]
"""What a session does, in one word for people."""


@click.command()
@click.option("--all", "everywhere", is_flag=True, help="List those of all directories.")
@click.option("--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, help="Maximum number.")
@json_option
@directory_option
@data_dir_option
def sessions(*, everywhere: bool, limit: int, as_json: bool, directory: Path, data_dir: Path | None) -> None:
    """List the sessions of this directory, newest first.

    Child sessions are not listed; `asyncagents show` lists those of a session.
    """
    import asyncio

    from asyncagents.cli.lookup import with_runtime

    where = None if everywhere else project_folder(directory)
    found = asyncio.run(
        with_runtime(
            data_directory(data_dir), lambda runtime: list_sessions(runtime, where, limit), nothing=NONE
        )
    )
    if as_json:
        print_json(found)
    elif found:
        print_rows(found, everywhere=everywhere)
    else:
        click.echo(
            "no sessions" if everywhere else f"no sessions of {where}; --all lists all others", err=True
        )


class SessionListRow(Struct, frozen=True):
    session: Session
    status: Status
    word: StatusWord
    """The status for people, which also says whether a process runs the session."""


NONE: tuple[SessionListRow, ...] = ()


async def list_sessions(runtime: Runtime, directory: Path | None, limit: int) -> tuple[SessionListRow, ...]:
    parents = {task.parent_session_id for task in await runtime.tasks.list(live=True)}
    found = await runtime.roots(directory, limit=limit)
    rows = []
    for session in found:
        status = await runtime.status(session.id)  # only of the listed ones: a million may wait
        word = await status_word(runtime, session.id, status, launched=session.id in parents)
        rows.append(SessionListRow(session, status, word))
    return tuple(rows)


async def status_word(
    runtime: Runtime, session_id: SessionId, status: Status, *, launched: bool = False
) -> StatusWord:
    """Return the status for people; `launched`: the session has live tasks."""
    match status:
        case Idle():
            return "tasks" if launched else "idle"
        case Retry(next=at):
            overdue = SystemClock().now() - at >= CLAIM_GRACE_MS
            return "left" if overdue and not await _is_taken(runtime, session_id) else "retry"
        case WaitingAsync():
            asks = any(call.asking for call in await runtime.open_calls(session_id))
            return "asks" if asks else "waiting"
        case Busy():
            if any(call.asking for call in await runtime.open_calls(session_id)):
                return "asks"
            return "busy" if await _is_taken(runtime, session_id) else "left"


async def _is_taken(runtime: Runtime, session_id: SessionId) -> bool:
    """Return whether a process runs the session, or a server does soon."""
    return runtime.tasks.is_served_elsewhere(ANY_POOL) or await runtime.is_running(session_id)


def print_rows(found: Sequence[SessionListRow], *, everywhere: bool) -> None:
    now = SystemClock().now()
    rows = []
    for each in found:
        info = each.session
        where = (info.directory,) if everywhere else ()
        when, spent = ago(info.time.updated, now), f"{token_text(info.tokens)} tokens"
        rows.append((info.id, each.word, when, spent, dollars(info.cost), *where, info.title))
    print_table(rows, flexible=len(rows[0]) - 1)


def print_json(found: Sequence[SessionListRow]) -> None:
    """Print each session as stored, with its status."""
    rows = [
        {**msgspec.json.decode(encode(each.session)), "status": msgspec.to_builtins(each.status)}
        for each in found
    ]
    click.echo(msgspec.json.encode(rows))
