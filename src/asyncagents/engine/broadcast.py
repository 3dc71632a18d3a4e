"""Endless event streams, of a directory or of all; each event is encoded as JSON once for all streams."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from itertools import chain
from typing import Any

from asyncagents.domain.codec import Unreadable
from asyncagents.domain.event import (
    Event,
    SessionCreated,
    SessionDeleted,
    SessionUpdated,
    UnknownEvent,
    frame,
)
from asyncagents.domain.id import EventId, Ids, SessionId
from asyncagents.domain.port import Clock
from asyncagents.domain.session import Session
from asyncagents.domain.shape import encode
from asyncagents.engine.bus import Bus, Subscription
from asyncagents.engine.receiver import ALWAYS, FRAMES, Item, Place, Receiver
from asyncagents.errors import Closed, NotFound
from asyncagents.store.store import Store

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
