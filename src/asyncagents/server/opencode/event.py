"""`/event` and `/global/event`: live event streams for OpenCode's clients."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from asyncagents.domain.event import UnknownEvent, frame
from asyncagents.domain.shape import encode
from asyncagents.engine.event.global_stream import Broadcast, Item, Lost, Place
from asyncagents.engine.event.replay import Resumed
from asyncagents.engine.runtime.instances import ALL_DISPOSED, DISPOSED, Disposed
from asyncagents.errors import Closed
from asyncagents.server.http.messages import Answer, Request, Stream, shown
from asyncagents.server.params import DIRECTED, DIRECTORY, directory
from asyncagents.server.route import Route, Site
from asyncagents.server.v1.session_events import EVENTS

CONNECTED, HEARTBEAT = "server.connected", "server.heartbeat"


async def here(site: Site, request: Request) -> Stream:
    """The stream ends with `server.instance.disposed`: reload all state and reconnect."""
    where = directory(site, request)
    return await _stream(site, _Told(site.runtime.broadcast, site.runtime.resumed, where))


async def everywhere(site: Site, request: Request) -> Stream:
    """Each event is a `payload`, with its directory and project if it has one."""
    return await _stream(site, _Told(site.runtime.broadcast, site.runtime.resumed, None))


async def _stream(site: Site, told: "_Told") -> Stream:
    cursor = await site.runtime.cursor()  # before it subscribes, so that no event is missed in between
    return Stream(told.frames(cursor), lambda: told.sign(HEARTBEAT), site.heartbeat, steady=True)


class _Told:
    """Encodes the frames of one stream."""

    def __init__(self, broadcast: Broadcast, resumed: Resumed, directory: str | None) -> None:
        self._broadcast = broadcast
        self._resumed = resumed
        self._directory = directory
        self._heads: dict[Place, bytes] = {}

    async def frames(self, cursor: str) -> AsyncGenerator[bytes, None]:
        """Yield frames until the directory is disposed of, or the runtime is closed."""
        async with aclosing(self._broadcast.listen(self._directory, since=cursor)) as heard:
            await anext(heard)
            yield self.sign(CONNECTED)
            async for missed in self._missed():
                yield missed
            try:
                async for items in heard:
                    if items:
                        yield b"".join([piece for item in items for piece in self._pieces(item)])
                    if any(self._ends(item) for item in items):
                        return
            except Lost:
                yield self.sign(ALL_DISPOSED if self._directory is None else DISPOSED)
            except Closed:
                return

    async def _missed(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._resumed.missed()) as missed:
            async for events in missed:
                if items := await self._broadcast.written(events, self._directory):
                    yield b"".join([piece for item in items for piece in self._pieces(item)])

    def _ends(self, item: Item) -> bool:
        return self._directory is not None and item.event.type == DISPOSED

    def _pieces(self, item: Item) -> tuple[bytes, ...]:
        if self._directory is not None:
            return b"data: ", item.body, b"\n\n"
        return self._head(item.place), item.body, b"}\n\n"

    def _head(self, place: Place | None) -> bytes:
        if place is None:
            return b'data: {"payload":'
        if place not in self._heads:
            project = {"project": place.project} if place.project else {}
            said = encode({"directory": place.directory, **project})
            self._heads[place] = b"data: " + said[:-1] + b',"payload":'
        return self._heads[place]

    def sign(self, type: str) -> bytes:
        """Encode an event of this stream alone."""
        properties: Any = Disposed(directory=self._directory or "") if type == DISPOSED else {}
        event = UnknownEvent(encode(properties), type=type, session_id=None)
        body = frame(self._broadcast.event_id(), event)
        return b"".join(self._pieces(Item(0, event, body, None)))


async def dispose(site: Site, request: Request) -> Answer:
    """Reloads the directory's files and ends its event streams; running sessions continue."""
    site.runtime.instances.dispose(directory(site, request))
    return shown(True)


async def dispose_all(site: Site, request: Request) -> Answer:
    """Reloads the files of every directory and ends their event streams; running sessions continue."""
    site.runtime.instances.dispose_all()
    return shown(True)


_NOTHING = dict[str, Any]
_OWN = ((CONNECTED, _NOTHING), (HEARTBEAT, _NOTHING), (DISPOSED, Disposed))

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/event",
        handler=here,
        access="token",
        summary='Stream events of a directory: `data: {"id", "type", "properties"}`',
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        gives="text/event-stream",
        events=(*_OWN, *EVENTS),
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/global/event",
        handler=everywhere,
        access="token",
        summary='Stream events of all directories: `data: {"directory", "project", "payload"}`',
        gives="text/event-stream",
        events=(*_OWN, (ALL_DISPOSED, _NOTHING), *EVENTS),
    ),
    Route(
        method="POST",
        path="/instance/dispose",
        handler=dispose,
        access="token",
        summary="Dispose of a directory's cached state",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=bool,
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/global/dispose",
        handler=dispose_all,
        access="token",
        summary="Dispose of the cached state of all directories",
        answer=bool,
    ),
)
