"""What happens in sessions and on the board, as events; across restarts of the server nothing is missed."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

from asyncagents.client.call import at
from asyncagents.client.link import Link, Question
from asyncagents.client.read import read
from asyncagents.client.sse import Frame, followed
from asyncagents.domain.background_task import BackgroundTask
from asyncagents.domain.board import BoardSnapshot, KindFilter, Removed
from asyncagents.domain.codec import Unreadable
from asyncagents.domain.event import (
    Event,
    SessionDeleted,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskUpdated,
    UnknownEvent,
    parse_event,
)
from asyncagents.domain.id import SessionId
from asyncagents.errors import Unavailable

TaskEvent: TypeAlias = TaskCreated | TaskUpdated | TaskCompleted | TaskFailed | TaskCancelled
BoardEvent: TypeAlias = BoardSnapshot | TaskEvent | Removed
_TASKS: dict[str, type[TaskEvent]] = {kind.type: kind for kind in TaskEvent.__args__}


class Anew:
    """What follows is all there is: what is not in it is not there."""


News: TypeAlias = Event | Anew | None
"""None: nothing happened; the stream has begun, or lives."""


async def session_news(
    link: Link, session_id: SessionId, *, tree: bool, after: str | None
) -> AsyncGenerator[News, None]:
    """First None, when the stream has begun. An event of a kind that we do not know is passed over."""
    query = {"tree": "true"} if tree else {}
    query = query if after is None else {**query, "after": after}
    question = Question(method="GET", path=at("v1", "sessions", session_id, "events"), query=query)
    async with aclosing(followed(link, question)) as frames:
        async for frame in frames:
            match frame.type:
                case "cursor":
                    yield None
                case "reset":
                    yield Anew()
                case _:
                    event = _event(frame)
                    yield None if isinstance(event, UnknownEvent) else event
                    if isinstance(event, SessionDeleted) and _is_last(event, session_id):
                        return


def _is_last(event: SessionDeleted, session_id: SessionId) -> bool:
    """With its root a tree is gone."""
    return event.session_id == session_id or event.info.parent_id is None


async def board_news(link: Link, kind: KindFilter) -> AsyncGenerator[BoardEvent, None]:
    question = Question(method="GET", path="/v1/events", query={"kind": kind})
    async with aclosing(followed(link, question)) as frames:
        async for frame in frames:
            match frame.type:
                case "snapshot":
                    yield read(frame.data, BoardSnapshot)
                case "task.removed":
                    yield read(frame.data, Removed)
                case change if change in _TASKS:
                    task = read(frame.data, BackgroundTask)
                    yield _TASKS[change](session_id=task.session_id, task=task)
                case _:
                    pass


def _event(frame: Frame) -> Event | UnknownEvent:
    try:
        return parse_event(frame.type, frame.data)
    except Unreadable as error:
        raise Unavailable(f"the server's stream is not what was expected: {error}") from error
