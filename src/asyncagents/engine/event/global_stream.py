"""The queue of one event stream, bounded; a stream that falls behind catches up from the store."""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from itertools import chain
from typing import Any, NamedTuple

from msgspec import Struct

from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.event import (
    Event,
    PartDelta,
    SessionCreated,
    SessionDeleted,
    SessionUpdated,
    UnknownEvent,
    frame,
)
from asyncagents.domain.id import EventId, Ids, SessionId
from asyncagents.domain.port import Clock
from asyncagents.domain.shape import encode
from asyncagents.engine.event.bus import Bus, Subscription
from asyncagents.engine.event.session_stream import later, still_new
from asyncagents.errors import Closed, NotFound
from asyncagents.store.store import Store
from asyncagents.store.verb.feed import at_revision

FRAMES = 8 * 1024
"""Max events queued per stream: what 200 streaming texts produce in a second."""
BYTES = 4 * 1024 * 1024
"""Max bytes queued per stream; bodies are shared between streams."""
GATHER_SECONDS = 0.01
"""Batch window; 10 ms is not perceptible."""
ALWAYS = sys.maxsize
"""Revision of an event that no row stores, which cannot be caught up."""


class Place(Struct, frozen=True):
    """The directory and the project of a session."""

    directory: str
    project: str


class Item(NamedTuple):
    """An event with the revision that was being published. `body`: its JSON, shared by all streams."""

    at: int
    event: Event | UnknownEvent
    body: bytes
    place: Place | None
    """None: the event is of no session, or its directory is not known yet."""


class Receiver:
    """Items are shared with all streams. A stream that falls behind queues nothing until it catches up."""

    def __init__(
        self, directory: str | None, cursor: str, *, size: int = FRAMES, most_bytes: int = BYTES
    ) -> None:
        self.directory = directory
        self.cursor = cursor
        """All events before it were taken, or caught up."""
        self.taken_at = 0
        """When items were last taken, in ms since the epoch."""
        self._size = size
        self._most_bytes = most_bytes
        self._items: deque[Item] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._told = 0
        self._told_at = 0.0
        self.lagging = False
        self.closed = False
        self.lost = False
        """Whether an event was dropped that no row stores."""

    def push(self, item: Item) -> None:
        if item.at < self._told and not isinstance(item.event, PartDelta):
            return
        if self.lagging and item.at != ALWAYS:
            return
        self._items.append(item)
        self._bytes += len(item.body)
        if len(self._items) > self._size or self._bytes > self._most_bytes:
            self._fall_behind()
        self._news.set()

    def _fall_behind(self) -> None:
        """Drop the queue but for events that no row stores; the rest is read from the store."""
        self.lost = self.lagging
        self.lagging = True
        self._keep(item for item in self._items if item.at == ALWAYS)

    def close(self) -> None:
        self.closed = True
        self._news.set()

    def listen_again(self) -> None:
        """Queue live events again; earlier ones are read from the store."""
        self.lagging = False

    def skip(self, growing: list[Item]) -> None:
        """Drop items that the catch-up and the streaming parts cover."""
        self._told = at_revision(self.cursor)
        self._keep(still_new(self._items, self._told, [item.event for item in growing]))

    def take(self, upto: int) -> list[Item]:
        """Return all queued items and advance the cursor to `upto`."""
        items = list(self._items)
        self._keep(())
        self.cursor = later(self.cursor, upto)
        return items

    def _keep(self, items: Iterable[Item]) -> None:
        self._items = deque(items)
        self._bytes = sum(len(item.body) for item in self._items)

    async def news(self) -> None:
        """Wait for items; after a send, wait `BATCH_WINDOW_SECONDS` to batch (halves the cost per event)."""
        while not (self._items or self.lagging or self.closed):
            self._news.clear()
            await self._news.wait()
        now = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._told_at + GATHER_SECONDS - now()))
        self._told_at = now()


KNOWN = 20_000
"""Sessions whose location is cached."""
_INFO = (SessionCreated, SessionUpdated, SessionDeleted)


class Lost(Closed):
    """Missed events are no longer available: the client must read the full state again."""


class Broadcast(Subscription):
    """Get it from a runtime: `runtime.broadcast`. It is attached to the bus while a stream is open."""

    def __init__(self, *, bus: Bus, store: Store, ids: Ids, clock: Clock) -> None:
        super().__init__(0)
        self.frames = FRAMES
        """Max events queued per stream."""
        self._clock = clock
        self._began = 0
        self._bus = bus
        self._store = store
        self._ids = ids
        self._places: dict[SessionId, Place] = {}
        self._receivers: dict[Receiver, None] = {}
        self._at: dict[str | None, dict[Receiver, None]] = {}
        """Streams of each directory; under None those of all directories."""
        self._attached = ExitStack()

    @property
    def directories(self) -> set[str]:
        """Directories with an open stream."""
        return {each for each in self._at if each is not None}

    def event_id(self) -> EventId:
        """Return an id for an event that only one stream gets."""
        return self._ids.event()

    def announce(self, type: str, properties: Any, *, place: Place | None = None) -> None:
        """Send an event that no row stores to all streams, or to those of a directory."""
        event = UnknownEvent(encode(properties), type=type, session_id=None)
        self._hand_out(event, place, at=ALWAYS)

    def push(self, event: Event) -> None:
        if event.session_id not in self._places:
            event = _born(event, self._began)
        self._hand_out(event, self._learned(event), at=self._bus.at)

    def close(self) -> None:
        super().close()
        for receiver in self._receivers:
            receiver.close()

    def _hand_out(self, event: Event | UnknownEvent, place: Place | None, *, at: int) -> None:
        """Queue an event for its directory's streams; if that is unknown, for all (they filter on read)."""
        here = self._receivers if place is None else self._at.get(place.directory, {})
        everywhere = {} if place is None else self._at.get(None, {})
        if here or everywhere:
            item = Item(at, event, self._written(event), place)
            for receiver in chain(here, everywhere):
                receiver.push(item)

    def _written(self, event: Event | UnknownEvent) -> bytes:
        """Encode an event on one line: JSON of a newer version may have line ends between its tokens."""
        body = frame(self._ids.event(), event)
        return body.replace(b"\n", b" ").replace(b"\r", b" ") if b"\n" in body or b"\r" in body else body

    def _learned(self, event: Event) -> Place | None:
        if isinstance(event, _INFO):
            return self._learn(event.info)
        return None if event.session_id is None else self._places.get(event.session_id)

    def _learn(self, session: Session) -> Place:
        known = self._places.get(session.id)
        if known is not None:
            return known
        while len(self._places) >= KNOWN:
            del self._places[next(iter(self._places))]
        place = self._places[session.id] = Place(session.directory, session.project_id)
        return place

    async def listen(
        self, directory: str | None = None, *, since: str
    ) -> AsyncGenerator[tuple[Item, ...], None]:
        """Yield `()` once subscribed, then the parts that are streaming, then batches of live events, of one
        directory or all.

        `since`: a cursor that was read before. A slow reader may miss states, never the last of them. Raises
        `Closed` when the runtime ends, and `EventsLost` if missed events are no longer available.
        """
        receiver = Receiver(directory, since, size=self.frames)
        with self._joined(receiver):
            yield ()
            yield await self._ours(await self._growing(receiver), directory)
            while not receiver.closed:
                while receiver.lagging:  # the stream may fall behind again while it catches up
                    async with aclosing(self._catch_up(receiver)) as missed:
                        async for items in missed:
                            yield await self._ours(items, directory)
                receiver.taken_at = self._clock.now()
                if items := receiver.take(self._bus.upto):
                    yield await self._ours(items, directory)
                await receiver.news()
        raise Closed("the runtime was closed")

    async def written(self, events: Iterable[Event], directory: str | None) -> tuple[Item, ...]:
        """Encode the events that concern a directory, for one stream."""
        return await self._ours(self._items(events), directory)

    async def _catch_up(self, receiver: Receiver) -> AsyncGenerator[list[Item], None]:
        """Read missed events from the store; live events are queued again from where that ends."""
        receiver.listen_again()
        more = not receiver.lost
        while more:
            piece = await self._store.feed(receiver.cursor)
            receiver.lost = piece.reset
            yield self._items(_born(event, receiver.taken_at) for event in piece.events)
            receiver.cursor, more = piece.cursor, piece.more
        if receiver.lost:
            raise Lost("missed events are no longer available: read the full state again")
        yield await self._growing(receiver)

    async def _growing(self, receiver: Receiver) -> list[Item]:
        """Return the parts that are streaming, as they are now; their later deltas are queued."""

        def wanted(session_id: SessionId) -> bool:
            place = self._places.get(session_id)
            return receiver.directory in (None, place and place.directory) or place is None

        await asyncio.sleep(0)  # a writer marks its part as published just after listeners get it
        growing = self._items(self._bus.being_written(wanted))
        receiver.skip(growing)
        return growing

    def _items(self, events: Iterable[Event]) -> list[Item]:
        """Encode events for one stream."""
        places = [(event, self._learned(event)) for event in events]
        return [Item(0, event, self._written(event), place) for event, place in places]

    async def _ours(self, items: list[Item], directory: str | None) -> tuple[Item, ...]:
        """Return the items of a directory, each with its location."""
        if any(item.place is None for item in items):
            items = [await self._placed(item) for item in items]
        return tuple([item for item in items if _is_in(item, directory)])

    async def _placed(self, item: Item) -> Item:
        session_id = item.event.session_id
        if item.place is not None or session_id is None:
            return item
        return item._replace(place=self._places.get(session_id) or await self._found(session_id))

    async def _found(self, session_id: SessionId) -> Place | None:
        try:
            return self._learn(await self._store.session(session_id))
        except (NotFound, Unreadable):
            return self._places.get(session_id)  # the session may have been deleted just now

    @contextmanager
    def _joined(self, receiver: Receiver) -> Iterator[None]:
        here = self._at.setdefault(receiver.directory, {})
        here[receiver] = self._receivers[receiver] = None
        if len(self._receivers) == 1:
            self._began = self._clock.now()
            self._attached.enter_context(self._bus.attach(self))
        if self.closed:
            receiver.close()
        try:
            yield
        finally:
            del here[receiver], self._receivers[receiver]
            if not here:
                self._at.pop(receiver.directory, None)
            if not self._receivers:
                self._attached.close()


def _born(event: Event, since: int) -> Event:
    """Report a session created since `since` as created: other processes and catch-up only report updates."""
    if isinstance(event, SessionUpdated) and event.info.time.created >= since:
        return SessionCreated(session_id=event.session_id, info=event.info)
    return event


def _is_in(item: Item, directory: str | None) -> bool:
    """Check the item's directory; an event of no session and no location is in every directory."""
    if directory is None:
        return True
    return item.event.session_id is None if item.place is None else item.place.directory == directory
