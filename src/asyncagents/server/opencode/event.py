"""`/event` and `/global/event`: live event streams for OpenCode's clients."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

from asyncagents.domain.event import EVENTS, UnknownEvent, encode_event
from asyncagents.domain.shape import encode
from asyncagents.engine.event.global_stream import Broadcast, EventsLost, SessionLocation, StreamItem
from asyncagents.engine.event.replay import RestartReplay
from asyncagents.engine.runtime.instances import ALL_DISPOSED, DISPOSED, InstanceDisposed
from asyncagents.errors import Closed
from asyncagents.server.http.messages import Request, Response, StreamingResponse, json_response
from asyncagents.server.http.sse import data_frames
from asyncagents.server.params import directory
from asyncagents.server.route import Routes, ServerContext

routes = Routes()

CONNECTED, HEARTBEAT = "server.connected", "server.heartbeat"
_EMPTY = dict[str, Any]
_OWN_EVENTS = ((CONNECTED, _EMPTY), (HEARTBEAT, _EMPTY), (DISPOSED, InstanceDisposed))


@routes.get(
    "/event", access="token", directory=True, content_type="text/event-stream", events=(*_OWN_EVENTS, *EVENTS)
)
async def directory_events(server: ServerContext, request: Request) -> StreamingResponse:
    """Stream events of a directory: `data: {"id", "type", "properties"}`.

    The stream ends with `server.instance.disposed`: reload all state and reconnect."""
    where = directory(server, request)
    return await _stream(server, _EventFrames(server.runtime.broadcast, server.runtime.replay, where))


@routes.get(
    "/global/event",
    access="token",
    content_type="text/event-stream",
    events=(*_OWN_EVENTS, (ALL_DISPOSED, _EMPTY), *EVENTS),
)
async def global_events(server: ServerContext, request: Request) -> StreamingResponse:
    """Stream events of all directories: `data: {"directory", "project", "payload"}`.

    Each event is a `payload`, with its directory and project if it has one."""
    return await _stream(server, _EventFrames(server.runtime.broadcast, server.runtime.replay, None))


async def _stream(server: ServerContext, frames: "_EventFrames") -> StreamingResponse:
    cursor = await server.runtime.cursor()  # before it subscribes, so that no event is missed in between
    return StreamingResponse(
        frames.frames(cursor),
        lambda: frames.own_frame(HEARTBEAT),
        server.heartbeat_seconds,
        is_fixed_rate=True,
    )


class _EventFrames:
    """Encodes the frames of one stream."""

    def __init__(self, broadcast: Broadcast, replay: RestartReplay, directory: str | None) -> None:
        self._broadcast = broadcast
        self._replay = replay
        self._directory = directory
        self._heads: dict[SessionLocation, bytes] = {}

    async def frames(self, cursor: str) -> AsyncGenerator[bytes, None]:
        """Yield frames until the directory is disposed of, or the runtime is closed."""
        async with aclosing(self._broadcast.listen(self._directory, since=cursor)) as batches:
            await anext(batches)
            yield self.own_frame(CONNECTED)
            async for missed in self._missed_frames():
                yield missed
            try:
                async for items in batches:
                    if items:
                        yield self._encode_items(items)
                    if any(self._ends(item) for item in items):
                        return
            except EventsLost:
                yield self.own_frame(ALL_DISPOSED if self._directory is None else DISPOSED)
            except Closed:
                return

    async def _missed_frames(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._replay.missed_events()) as missed:
            async for events in missed:
                if items := await self._broadcast.encode_events(events, self._directory):
                    yield self._encode_items(items)

    def _ends(self, item: StreamItem) -> bool:
        return self._directory is not None and item.event.type == DISPOSED

    def _encode_items(self, items: Iterable[StreamItem]) -> bytes:
        if self._directory is not None:
            return data_frames([(item.body,) for item in items])
        return data_frames([(self._payload_head(item.location), item.body, b"}") for item in items])

    def _payload_head(self, location: SessionLocation | None) -> bytes:
        if location is None:
            return b'{"payload":'
        if location not in self._heads:
            project = {"project": location.project} if location.project else {}
            head = encode({"directory": location.directory, **project})
            self._heads[location] = head[:-1] + b',"payload":'
        return self._heads[location]

    def own_frame(self, type: str) -> bytes:
        """Encode an event of this stream alone."""
        properties: Any = InstanceDisposed(directory=self._directory or "") if type == DISPOSED else {}
        event = UnknownEvent(encode(properties), type=type, session_id=None)
        body = encode_event(self._broadcast.new_event_id(), event)
        return self._encode_items((StreamItem(0, event, body, None),))


@routes.post("/instance/dispose", access="token", directory=True, response=bool)
async def dispose(server: ServerContext, request: Request) -> Response:
    """Dispose of a directory's cached state.

    Reloads the directory's files and ends its event streams; running sessions continue."""
    server.runtime.instances.dispose(directory(server, request))
    return json_response(True)


@routes.post("/global/dispose", access="token", response=bool)
async def dispose_all(server: ServerContext, request: Request) -> Response:
    """Dispose of the cached state of all directories.

    Reloads the files of every directory and ends their event streams; running sessions continue."""
    server.runtime.instances.dispose_all()
    return json_response(True)
