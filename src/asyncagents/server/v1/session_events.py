"""The event stream of a session; a client can resume from every `id` in it.

Besides events there are `cursor`, the position to resume from, and `reset`: the full state follows.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, ClassVar

from msgspec import Struct

from asyncagents.domain.event import EVENTS, Event, SessionDeleted, event_properties
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape, encode
from asyncagents.engine.event.session_stream import EventBatch
from asyncagents.errors import Closed
from asyncagents.server.http.messages import AnyResponse, Request, StreamingResponse
from asyncagents.server.http.sse import encode_id, frame
from asyncagents.server.params import query_flag, query_text, session_id
from asyncagents.server.route import Param, Routes, ServerContext

routes = Routes()

LAST_ID = "last-event-id"


class CursorEvent(Shape, frozen=True, kw_only=True):
    schema_name: ClassVar[str] = "At"
    cursor: str


@routes.get(
    "/v1/sessions/{id}/events",
    access="token",
    query=(
        Param("after", "Cursor to resume from: the last `id` that was read"),
        Param("tree", "Events of all sessions of the tree", "boolean"),
    ),
    headers=(Param("Last-Event-ID", "Cursor, used if the query has none"),),
    content_type="text/event-stream",
    events=(("cursor", CursorEvent), ("reset", dict[str, Any]), *EVENTS),
)
async def events(server: ServerContext, request: Request) -> AnyResponse:
    """Stream the events of a session, from now or from a cursor."""
    named, tree = session_id(request), query_flag(request, "tree")
    after = query_text(request, "after") or request.header(LAST_ID) or None
    root_id = await server.runtime.root_of(named) if tree else named
    batches = server.runtime.follow(named, after=after, tree=tree)
    try:
        first = await anext(batches)
    except BaseException:
        await batches.aclose()
        raise
    return StreamingResponse(_frames(first, batches, FollowedSession(root_id, after)))


class FollowedSession(Struct, frozen=True):
    root_id: SessionId
    after: str | None


async def _frames(
    first: EventBatch, more: AsyncGenerator[EventBatch, None], followed: FollowedSession
) -> AsyncGenerator[bytes, None]:
    """Yield frames until the session is deleted or the runtime closed; a slow reader catches up."""
    async with aclosing(more):
        if not first.reset:
            yield _cursor_frame(followed.after or first.cursor)
        if first.events:
            yield _batch_frames(first)
        try:
            async for batch in more:
                yield _batch_frames(batch)
                if any(
                    isinstance(e, SessionDeleted) and e.session_id == followed.root_id for e in batch.events
                ):
                    return
        except Closed:
            return


def _batch_frames(batch: EventBatch) -> bytes:
    """Encode a batch. Its last frame carries the cursor, so that a resume never skips events of the batch."""
    if not batch.events:
        return _cursor_frame(batch.cursor)
    frames = [_event_frame(event) for event in batch.events]
    begin = [frame("reset", b"{}")] if batch.reset else []
    return b"".join([*begin, *frames[:-1], encode_id(batch.cursor), frames[-1]])


def _event_frame(event: Event) -> bytes:
    data = encode(event_properties(event))
    if b"\n" in data or b"\r" in data:  # whitespace between the tokens of JSON that a newer version wrote
        data = data.replace(b"\n", b" ").replace(b"\r", b" ")
    return frame(event.type, data)


def _cursor_frame(cursor: str) -> bytes:
    return encode_id(cursor) + frame("cursor", encode(CursorEvent(cursor=cursor)))
