"""Show what a tree of sessions does until all of it rests or waits for the outside."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

from asyncagents.cli.ask_person import Asker
from asyncagents.cli.exit import Complaint, complaint
from asyncagents.cli.host import Host
from asyncagents.cli.run_view import View
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
from asyncagents.domain.status import Idle

LOOK_SECONDS = 0.25
"""How often to look for what no event tells: an ask that is left alone, a disk that is full."""

News: TypeAlias = Event | None
"""None: it is time to look."""


async def follow(
    host: Host,
    root_id: SessionId,
    *,
    events: AsyncIterator[Event],
    view: View,
    asker: Asker | None = None,
) -> None:
    """Raises `Complaint` if the tree is deleted, or its work cannot be written down here.

    With an `asker`, what the tree waits for a person for is asked here; that counts as work.
    """
    news: asyncio.Queue[News] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_pass_on(events, news)), group.create_task(_tick(news))]
        if asker is not None:
            tasks.append(group.create_task(asker.work()))
        while await _goes_on(host, root_id, asker):
            await _show(host, root_id, news, view)
            if asker is not None:
                asker.look()
        if asker is not None:
            asker.end()
        await asyncio.sleep(0)  # what was published by now is passed on
        for task in tasks:
            task.cancel()
    while not news.empty():
        if (event := news.get_nowait()) is not None:
            view.show(event)


async def _goes_on(host: Host, root_id: SessionId, asker: Asker | None) -> bool:
    """Looked at twice: an answer between two looks ends the asking, and begins the work."""
    if asker is None:
        return await host.at_work(root_id)
    for _ in range(2):
        if await host.at_work(root_id) or await asker.wanted():
            return True
    return False


async def _show(host: Host, root_id: SessionId, news: asyncio.Queue[News], view: View) -> None:
    """Until something happens after which the tree may be at rest, or ask."""
    while True:
        event = await news.get()
        if event is None:
            view.pause()
            _check(host, root_id)
            return
        view.show(event)
        match event:
            case SessionDeleted(session_id=session_id) if session_id == root_id:
                raise was_deleted(root_id)
            case SessionIdle() | SessionDeleted() | PermissionAsked() | QuestionAsked():
                return
            case PermissionReplied() | QuestionReplied() | QuestionRejected():
                return
            case SessionStatus(status=status) if not isinstance(status, Idle):
                return
            case _:
                pass


def was_deleted(root_id: SessionId) -> Complaint:
    return Complaint(f"session {root_id} was deleted while it was followed")


def _check(host: Host, root_id: SessionId) -> None:
    """What is accepted is kept, so there is no point in trying for ever."""
    if host.trouble is not None:
        told = complaint(host.trouble)
        again = f"`asyncagents run --session {root_id}` goes on"
        raise Complaint(told.message, hint=f"{told.hint}; {again}" if told.hint else again)


async def _pass_on(events: AsyncIterator[Event], news: asyncio.Queue[News]) -> None:
    async for event in events:
        news.put_nowait(event)


async def _tick(news: asyncio.Queue[News]) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        news.put_nowait(None)
