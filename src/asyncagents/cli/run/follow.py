"""Shows the events of a session tree until all of it rests or waits for the outside."""

import asyncio
from collections.abc import AsyncIterator

from asyncagents.cli.ask.person import Asker
from asyncagents.cli.exit import CliError, as_cli_error
from asyncagents.cli.host import Host
from asyncagents.cli.run.view import View
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import (
    Event,
    PermissionAsked,
    PermissionReplied,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
    SessionDeleted,
    SessionIdle,
    SessionStatus,
)
from asyncagents.domain.id import SessionId

POLL_SECONDS = 0.25
"""Interval to check for changes without an event: an ask that is left open, a full disk."""


async def follow_tree(
    host: Host,
    root_id: SessionId,
    *,
    events: AsyncIterator[Event],
    view: View,
    asker: Asker | None = None,
) -> None:
    """Show events until the tree rests. Raises `CliError` if it is deleted or the store cannot write.

    With an `asker`, open asks are put to the person at the terminal; an open ask counts as work.
    """
    changed = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_show_events(events, root_id, view, changed)),
            group.create_task(_poll(host, root_id, view, changed)),
        ]
        if asker is not None:
            tasks.append(group.create_task(asker.work()))
        while await _is_active(host, root_id, asker):
            await changed.wait()
            changed.clear()
            if asker is not None:
                asker.recheck()
        if asker is not None:
            asker.dismiss()
        await asyncio.sleep(0)  # show the events that are already published
        for task in tasks:
            task.cancel()


async def _is_active(host: Host, root_id: SessionId, asker: Asker | None) -> bool:
    """Return whether the tree works or asks. Checks twice: an answer between the checks starts work."""
    if asker is None:
        return await host.at_work(root_id)
    for _ in range(2):
        if await host.at_work(root_id) or await asker.has_open_asks():
            return True
    return False


async def _show_events(
    events: AsyncIterator[Event], root_id: SessionId, view: View, changed: asyncio.Event
) -> None:
    """Show events; set `changed` after one since which the tree may rest or ask."""
    async for event in events:
        view.show(event)
        match event:
            case SessionDeleted(session_id=session_id) if session_id == root_id:
                raise deleted_error(root_id)
            case SessionIdle() | SessionDeleted() | PermissionAsked() | QuestionAsked():
                changed.set()
            case PermissionReplied() | QuestionReplied() | QuestionRejected():
                changed.set()
            case SessionStatus(status=status) if not isinstance(status, Idle):
                changed.set()
            case _:
                pass


async def _poll(host: Host, root_id: SessionId, view: View, changed: asyncio.Event) -> None:
    """Set `changed` at an interval. Raises `CliError` if the store cannot write."""
    while True:
        await asyncio.sleep(POLL_SECONDS)
        view.show_held()
        _raise_trouble(host, root_id)
        changed.set()


def deleted_error(root_id: SessionId) -> CliError:
    return CliError(f"session {root_id} was deleted during the run")


def _raise_trouble(host: Host, root_id: SessionId) -> None:
    """Raise if the store cannot write: accepted input is stored, so the run need not retry forever."""
    if host.trouble is not None:
        error = as_cli_error(host.trouble)
        again = f"`asyncagents run --session {root_id}` continues"
        raise CliError(error.message, hint=f"{error.hint}; {again}" if error.hint else again)
