"""Streams events of all sessions, a bounded queue for each listener; a slow one catches up from the store."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from itertools import chain
from typing import Any, NamedTuple

from msgspec import Struct

from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.event import (
    Event,
    SessionCreated,
    SessionDeleted,
    SessionUpdated,
    UnknownEvent,
    encode_event,
)
from asyncagents.domain.feed import cursor_revision
from asyncagents.domain.id import EventId, Ids, SessionId
from asyncagents.domain.shape import encode
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.event.queue import ReplayQueue
from asyncagents.engine.event.session_stream import advance_cursor
from asyncagents.errors import Closed, NotFound
from asyncagents.store.store import Store

MAX_FRAMES = 8 * 1024
"""Max events queued per stream: what 200 streaming texts produce in a second."""
MAX_BYTES = 4 * 1024 * 1024
"""Max bytes queued per stream; bodies are shared between streams."""
BATCH_WINDOW_SECONDS = 0.01
"""Batch window; 10 ms is not perceptible."""
NO_REVISION = sys.maxsize
"""Revision of an event that no row stores, which cannot be caught up."""


class SessionLocation(Struct, frozen=True):
    """The directory and the project of a session."""

    directory: str
    project: str


class StreamItem(NamedTuple):
    """An event with the revision that was being published. `body`: its JSON, shared by all streams."""

    at: int
    event: Event | UnknownEvent
    body: bytes
    location: SessionLocation | None
    """None: the event is of no session, or its directory is not known yet."""


class StreamQueue(ReplayQueue[StreamItem]):
    """Items are shared with all streams. A stream that falls behind queues nothing until it catches up."""

    def __init__(
        self, directory: str | None, cursor: str, *, size: int = MAX_FRAMES, most_bytes: int = MAX_BYTES
    ) -> None:
        super().__init__(size)
        self.directory = directory
        self.cursor = cursor
        """All events before it were taken, or caught up."""
        self.taken_at = 0
        """When items were last taken, in ms since the epoch."""
        self._most_bytes = most_bytes
        self._bytes = 0
        self._sent_at = 0.0
        self.lost = False
        """Whether an event was dropped that no row stores."""

    def push(self, item: StreamItem) -> None:
        if self.is_replayed(item.at, item.event):
            return
        if self.lagging and item.at != NO_REVISION:
            return
        self._items.append(item)
        self._bytes += len(item.body)
        if len(self._items) > self._size or self._bytes > self._most_bytes:
            self._fall_behind()
        self._ready.set()

    def _fall_behind(self) -> None:
        """Drop the queue but for events that no row stores; the rest is read from the store."""
        self.lost = self.lagging
        self.lagging = True
        self._replace_items(item for item in self._items if item.at == NO_REVISION)

    def resume_queueing(self) -> None:
        """Queue live events again; earlier ones are read from the store."""
        self.lagging = False

    def take(self, upto: int) -> list[StreamItem]:
        """Return all queued items and advance the cursor to `upto`."""
        self.cursor = advance_cursor(self.cursor, upto)
        return self.take_all()

    def _replace_items(self, items: Iterable[StreamItem]) -> None:
        super()._replace_items(items)
        self._bytes = sum(len(item.body) for item in self._items)

    async def wait_for_items(self) -> None:
        """Wait for items; after a send, wait `BATCH_WINDOW_SECONDS` to batch (halves the cost per event)."""
        await self.wait()
        now = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._sent_at + BATCH_WINDOW_SECONDS - now()))
        self._sent_at = now()


MAX_LOCATIONS = 20_000
"""Sessions whose location is cached."""
_SESSION_EVENTS = (SessionCreated, SessionUpdated, SessionDeleted)


class EventsLost(Closed):
    """Missed events are no longer available: the client must read the full state again."""


class Broadcast:
    """Get it from a runtime: `runtime.broadcast`. It is attached to the bus while a stream is open."""

    def __init__(self, *, bus: Bus, store: Store, ids: Ids, clock: Clock) -> None:
        self.closed = False
        self.frames = MAX_FRAMES
        """Max events queued per stream."""
        self._clock = clock
        self._attached_at = 0
        self._bus = bus
        self._store = store
        self._ids = ids
        self._locations: BoundedDict[SessionId, SessionLocation] = BoundedDict(MAX_LOCATIONS)
        self._queues: dict[StreamQueue, None] = {}
        self._queues_by_directory: dict[str | None, dict[StreamQueue, None]] = {}
        """Streams of each directory; under None those of all directories."""
        self._bus_attachment = ExitStack()

    @property
    def directories(self) -> set[str]:
        """Directories with an open stream."""
        return {each for each in self._queues_by_directory if each is not None}

    def new_event_id(self) -> EventId:
        """Return an id for an event that only one stream gets."""
        return self._ids.event()

    def announce(self, type: str, properties: Any, *, location: SessionLocation | None = None) -> None:
        """Send an event that no row stores to all streams, or to those of a directory."""
        event = UnknownEvent(encode(properties), type=type, session_id=None)
        self._enqueue(event, location, at=NO_REVISION)

    def push(self, event: Event) -> None:
        if event.session_id not in self._locations:
            event = _as_created(event, self._attached_at)
        self._enqueue(event, self._locate(event), at=self._bus.latest_revision)

    def close(self) -> None:
        self.closed = True
        for queue in self._queues:
            queue.close()

    def _enqueue(self, event: Event | UnknownEvent, location: SessionLocation | None, *, at: int) -> None:
        """Queue an event for its directory's streams; if that is unknown, for all (they filter on read)."""
        here = self._queues if location is None else self._queues_by_directory.get(location.directory, {})
        everywhere = {} if location is None else self._queues_by_directory.get(None, {})
        if here or everywhere:
            item = StreamItem(at, event, self._encode_event(event), location)
            for queue in chain(here, everywhere):
                queue.push(item)

    def _encode_event(self, event: Event | UnknownEvent) -> bytes:
        """Encode an event on one line: JSON of a newer version may have line ends between its tokens."""
        body = encode_event(self._ids.event(), event)
        return body.replace(b"\n", b" ").replace(b"\r", b" ") if b"\n" in body or b"\r" in body else body

    def _locate(self, event: Event) -> SessionLocation | None:
        if isinstance(event, _SESSION_EVENTS):
            return self._remember_location(event.info)
        return None if event.session_id is None else self._locations.get(event.session_id)

    def _remember_location(self, session: Session) -> SessionLocation:
        known = self._locations.get(session.id)
        if known is not None:
            return known
        location = self._locations[session.id] = SessionLocation(session.directory, session.project_id)
        return location

    async def listen(
        self, directory: str | None = None, *, since: str
    ) -> AsyncGenerator[tuple[StreamItem, ...], None]:
        """Yield `()` once subscribed, then the parts that are streaming, then batches of live events, of one
        directory or all.

        `since`: a cursor that was read before. A slow reader may miss states, never the last of them. Raises
        `Closed` when the runtime ends, and `EventsLost` if missed events are no longer available.
        """
        queue = StreamQueue(directory, since, size=self.frames)
        with self._attach_queue(queue):
            yield ()
            yield await self._filter_items(await self._streaming_items(queue), directory)
            while not queue.closed:
                while queue.lagging:  # the stream may fall behind again while it catches up
                    async with aclosing(self._catch_up(queue)) as missed:
                        async for items in missed:
                            yield await self._filter_items(items, directory)
                queue.taken_at = self._clock.now()
                if items := queue.take(self._bus.complete_revision):
                    yield await self._filter_items(items, directory)
                await queue.wait_for_items()
        raise Closed("the runtime was closed")

    async def encode_events(self, events: Iterable[Event], directory: str | None) -> tuple[StreamItem, ...]:
        """Encode the events that concern a directory, for one stream."""
        return await self._filter_items(self._build_items(events), directory)

    async def _catch_up(self, queue: StreamQueue) -> AsyncGenerator[list[StreamItem], None]:
        """Read missed events from the store; live events are queued again from where that ends."""
        queue.resume_queueing()
        more = not queue.lost
        while more:
            piece = await self._store.feed(queue.cursor)
            queue.lost = piece.reset
            yield self._build_items(_as_created(event, queue.taken_at) for event in piece.events)
            queue.cursor, more = piece.cursor, piece.more
        if queue.lost:
            raise EventsLost("missed events are no longer available: read the full state again")
        yield await self._streaming_items(queue)

    async def _streaming_items(self, queue: StreamQueue) -> list[StreamItem]:
        """Return the parts that are streaming, as they are now; their later deltas are queued."""

        def may_concern(session_id: SessionId) -> bool:
            location = self._locations.get(session_id)
            return queue.directory in (None, location and location.directory) or location is None

        await asyncio.sleep(0)  # a writer marks its part as published just after listeners get it
        growing = self._build_items(self._bus.streaming_events(may_concern))
        queue.skip_replayed(cursor_revision(queue.cursor), [item.event for item in growing])
        return growing

    def _build_items(self, events: Iterable[Event]) -> list[StreamItem]:
        """Encode events for one stream."""
        places = [(event, self._locate(event)) for event in events]
        return [StreamItem(0, event, self._encode_event(event), location) for event, location in places]

    async def _filter_items(self, items: list[StreamItem], directory: str | None) -> tuple[StreamItem, ...]:
        """Return the items of a directory, each with its location."""
        if any(item.location is None for item in items):
            items = [await self._with_location(item) for item in items]
        return tuple([item for item in items if _is_in_directory(item, directory)])

    async def _with_location(self, item: StreamItem) -> StreamItem:
        session_id = item.event.session_id
        if item.location is not None or session_id is None:
            return item
        return item._replace(
            location=self._locations.get(session_id) or await self._find_location(session_id)
        )

    async def _find_location(self, session_id: SessionId) -> SessionLocation | None:
        try:
            return self._remember_location(await self._store.session(session_id))
        except (NotFound, Unreadable):
            return self._locations.get(session_id)  # the session may have been deleted just now

    @contextmanager
    def _attach_queue(self, queue: StreamQueue) -> Iterator[None]:
        here = self._queues_by_directory.setdefault(queue.directory, {})
        here[queue] = self._queues[queue] = None
        if len(self._queues) == 1:
            self._attached_at = self._clock.now()
            self._bus_attachment.enter_context(self._bus.attach(self))
        if self.closed:
            queue.close()
        try:
            yield
        finally:
            del here[queue], self._queues[queue]
            if not here:
                self._queues_by_directory.pop(queue.directory, None)
            if not self._queues:
                self._bus_attachment.close()


def _as_created(event: Event, since: int) -> Event:
    """Report a session created since `since` as created: other processes and catch-up only report updates."""
    if isinstance(event, SessionUpdated) and event.info.time.created >= since:
        return SessionCreated(session_id=event.session_id, info=event.info)
    return event


def _is_in_directory(item: StreamItem, directory: str | None) -> bool:
    """Check the item's directory; an event of no session and no location is in every directory."""
    if directory is None:
        return True
    return item.event.session_id is None if item.location is None else item.location.directory == directory
