"""Event streams of sessions and of the board, complete across restarts of the server."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

from msgspec.structs import replace

from asyncagents.client.decode import decode_body
from asyncagents.client.json_client import build_path
from asyncagents.client.transport import CONNECTION_ERRORS, ApiRequest, Transport
from asyncagents.domain.conversation.codec import Unreadable
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
from asyncagents.domain.sse import SseDecoder, SseEvent
from asyncagents.domain.task.board import BoardSnapshot, KindFilter, TaskRemoved
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.errors import Unavailable

MOST_BYTES = 64 * 1024 * 1024
"""Max bytes of an event: a longer one does not come from an asyncagents server."""

TaskEvent: TypeAlias = TaskCreated | TaskUpdated | TaskCompleted | TaskFailed | TaskCancelled
BoardEvent: TypeAlias = BoardSnapshot | TaskEvent | TaskRemoved
_TASKS: dict[str, type[TaskEvent]] = {kind.type: kind for kind in TaskEvent.__args__}


class Reset:
    """Marks that the full state follows; what is missing in it no longer exists."""


SessionNews: TypeAlias = Event | Reset | None
"""None: no event; the stream has begun, or is alive."""


async def follow_session(
    transport: Transport, session_id: SessionId, *, tree: bool, after: str | None
) -> AsyncGenerator[SessionNews, None]:
    """Yield None once the stream has begun, then events; None also stands for events of unknown kind."""
    query = {"tree": "true"} if tree else {}
    query = query if after is None else {**query, "after": after}
    request = ApiRequest(method="GET", path=build_path("v1", "sessions", session_id, "events"), query=query)
    async with aclosing(_follow_frames(transport, request)) as frames:
        async for frame in frames:
            match frame.type:
                case "cursor":
                    yield None
                case "reset":
                    yield Reset()
                case _:
                    event = _parse_frame_event(frame)
                    yield None if isinstance(event, UnknownEvent) else event
                    if isinstance(event, SessionDeleted) and _is_last(event, session_id):
                        return


def _is_last(event: SessionDeleted, session_id: SessionId) -> bool:
    """Whether the stream ends: the session or the root of its tree was deleted."""
    return event.session_id == session_id or event.info.parent_id is None


async def follow_board(transport: Transport, kind: KindFilter) -> AsyncGenerator[BoardEvent, None]:
    request = ApiRequest(method="GET", path="/v1/events", query={"kind": kind})
    async with aclosing(_follow_frames(transport, request)) as frames:
        async for frame in frames:
            match frame.type:
                case "snapshot":
                    yield decode_body(frame.data, BoardSnapshot)
                case "task.removed":
                    yield decode_body(frame.data, TaskRemoved)
                case change if change in _TASKS:
                    task = decode_body(frame.data, BackgroundTask)
                    yield _TASKS[change](session_id=task.session_id, task=task)
                case _:
                    pass


async def _follow_frames(transport: Transport, request: ApiRequest) -> AsyncGenerator[SseEvent, None]:
    """Yield events forever; after a disconnect, resume after the last id that was read.

    Raises the server's error, and `Unavailable` if the server is unreachable for too long.
    """
    backoff = transport.new_backoff()
    while True:
        error: Exception = Unavailable("the server ended the stream")
        decoder, has_events = SseDecoder(MOST_BYTES), False
        try:
            async with transport.open_stream(request) as response:
                async for chunk in response.content.iter_any():
                    for event in decoder.feed(chunk):
                        has_events = True
                        if event.id is not None:
                            request = replace(request, query={**request.query, "after": event.id})
                        yield event
        except (Unavailable, *CONNECTION_ERRORS) as lost:
            error = lost
        if has_events:  # the connection worked until now, even if it was silent
            backoff.reset()
        await backoff.wait(error)


def _parse_frame_event(frame: SseEvent) -> Event | UnknownEvent:
    try:
        return parse_event(frame.type, frame.data)
    except Unreadable as error:
        raise Unavailable(f"an event of the server does not match the schema: {error}") from error
