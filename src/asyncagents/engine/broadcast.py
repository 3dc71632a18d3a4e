"""Everything that happens, for streams without end: an event is written as JSON once, whoever listens."""

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
"""Sessions whose place is remembered."""
_INFO = (SessionCreated, SessionUpdated, SessionDeleted)


class Lost(Closed):
    """What happened meanwhile cannot be told any more: whoever listens reads everything afresh."""


class Broadcast(Subscription):
    """Get it from a runtime: `runtime.broadcast`. It listens to the bus while somebody listens to it."""

    def __init__(self, *, bus: Bus, store: Store, ids: Ids, clock: Clock) -> None:
        super().__init__(0)
        self.frames = FRAMES
        """So many are kept for each who listens."""
        self._clock = clock
        self._began = 0
        self._bus = bus
        self._store = store
        self._ids = ids
        self._places: dict[SessionId, Place] = {}
        self._receivers: dict[Receiver, None] = {}
        self._at: dict[str | None, dict[Receiver, None]] = {}
        """Who hears of a directory; None: of all."""
        self._attached = ExitStack()

    @property
    def directories(self) -> set[str]:
        """Those that somebody listens to."""
        return {each for each in self._at if each is not None}

    def event_id(self) -> EventId:
        """For what is told to one alone."""
        return self._ids.event()

    def announce(self, type: str, properties: Any, *, place: Place | None = None) -> None:
        """Tell everybody, or who listens to a directory, of something that is in no row."""
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
        """Whoever cannot be told yet whether it concerns him finds out when he takes it."""
        here = self._receivers if place is None else self._at.get(place.directory, {})
        everywhere = {} if place is None else self._at.get(None, {})
        if here or everywhere:
            item = Item(at, event, self._written(event), place)
            for receiver in chain(here, everywhere):
                receiver.push(item)

    def _written(self, event: Event | UnknownEvent) -> bytes:
        """On one line: what a newer version wrote may have ends of lines between its tokens."""
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
        """What happens from the first step on, in a directory or everywhere: then comes nothing, at once,
        and next the texts that are being written just now, as far as they are.

        `since`: a cursor that was read before. A slow reader may miss states, never the last of them. Raises
        `Closed` when the runtime ends, and `Lost` if it cannot be told what he missed.
        """
        receiver = Receiver(directory, since, size=self.frames)
        with self._joined(receiver):
            yield ()
            yield await self._ours(await self._growing(receiver), directory)
            while not receiver.closed:
                while receiver.lagging:  # it may fall behind again while it catches up
                    async with aclosing(self._catch_up(receiver)) as missed:
                        async for items in missed:
                            yield await self._ours(items, directory)
                receiver.taken_at = self._clock.now()
                if items := receiver.take(self._bus.upto):
                    yield await self._ours(items, directory)
                await receiver.news()
        raise Closed("the runtime was closed")

    async def written(self, events: Iterable[Event], directory: str | None) -> tuple[Item, ...]:
        """What concerns one who listens there, for him alone."""
        return await self._ours(self._items(events), directory)

    async def _catch_up(self, receiver: Receiver) -> AsyncGenerator[list[Item], None]:
        """From the store; it is told with all others again from where that ends."""
        receiver.listen_again()
        more = not receiver.lost
        while more:
            piece = await self._store.feed(receiver.cursor)
            receiver.lost = piece.reset
            yield self._items(_born(event, receiver.taken_at) for event in piece.events)
            receiver.cursor, more = piece.cursor, piece.more
        if receiver.lost:
            raise Lost("what was missed cannot be told any more")
        yield await self._growing(receiver)

    async def _growing(self, receiver: Receiver) -> list[Item]:
        """Texts that are being written; their pieces are told from here on."""

        def wanted(session_id: SessionId) -> bool:
            place = self._places.get(session_id)
            return receiver.directory in (None, place and place.directory) or place is None

        await asyncio.sleep(0)  # whoever writes a text learns a moment after listeners that it has begun
        growing = self._items(self._bus.being_written(wanted))
        receiver.skip(growing)
        return growing

    def _items(self, events: Iterable[Event]) -> list[Item]:
        """For one alone."""
        places = [(event, self._learned(event)) for event in events]
        return [Item(0, event, self._written(event), place) for event, place in places]

    async def _ours(self, items: list[Item], directory: str | None) -> tuple[Item, ...]:
        """Of a directory, all with their places."""
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
            return self._places.get(session_id)  # it may have been deleted just now

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
    """What other processes made, or what was missed, is told as it is now: new, if it is."""
    if isinstance(event, SessionUpdated) and event.info.time.created >= since:
        return SessionCreated(session_id=event.session_id, info=event.info)
    return event


def _is_in(item: Item, directory: str | None) -> bool:
    """What is of no session concerns everybody, unless it is said whom."""
    if directory is None:
        return True
    return item.event.session_id is None if item.place is None else item.place.directory == directory
