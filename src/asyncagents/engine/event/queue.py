"""The queue behind each reader of events: its writer never waits, and a reader that lags catches up."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any, Generic, TypeVar

from asyncagents.domain.event import Event, PartDelta, PartUpdated, UnknownEvent
from asyncagents.domain.id import PartId

T = TypeVar("T")
H = TypeVar("H", bound=tuple[Any, ...])


class BoundedQueue(Generic[T]):
    """A queue for many small items, so it is not an `asyncio.Queue`.

    Once full, it drops what comes and its reader is lagging: the store has what it missed.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[T] = deque()
        self._ready = asyncio.Event()
        self.lagging = False
        self.closed = False

    def add(self, item: T) -> None:
        if self.lagging or self.closed:
            return
        if len(self._items) < self._size:
            self._items.append(item)
        else:
            self.lagging = True
        self._ready.set()

    def close(self) -> None:
        """End the queue: no more items follow."""
        self.closed = True
        self._ready.set()

    def take_all(self) -> list[T]:
        items = list(self._items)
        self._replace_items(())
        return items

    def _replace_items(self, items: Iterable[T]) -> None:
        self._items = deque(items)

    async def wait(self) -> None:
        """Wait until there are items, or the queue is closed or its reader lagging."""
        while not (self._items or self.lagging or self.closed):
            self._ready.clear()
            await self._ready.wait()

    async def __aiter__(self) -> AsyncIterator[T]:
        """Yield items; end when the queue is closed or its reader has fallen behind."""
        while self._items or not (self.lagging or self.closed):
            while self._items:
                yield self._items.popleft()
            await self.wait()


class ReplayQueue(BoundedQueue[H]):
    """Queues events, each with the revision that was being published: a catch-up covers the older ones.

    An item begins with its revision and its event.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._replayed_revision = 0

    def is_replayed(self, revision: int, event: Event | UnknownEvent) -> bool:
        return revision < self._replayed_revision and not isinstance(event, PartDelta)

    def skip_replayed(self, upto: int, growing: Iterable[Event | UnknownEvent]) -> None:
        """Drop events that the catch-up up to revision `upto`, and the streaming parts, cover.

        That includes deltas whose part is in `growing` or has not started.
        """
        self._replayed_revision = upto
        whole = {event.part.id for event in growing if isinstance(event, PartUpdated)}
        begun: set[PartId] = set()
        remaining: list[H] = []
        for item in self._items:
            at, event = item[0], item[1]
            if at <= upto or (isinstance(event, PartDelta) and event.part_id not in begun - whole):
                continue
            if isinstance(event, PartUpdated) and event.part.id is not None:
                begun.add(event.part.id)
            remaining.append(item)
        self._replace_items(remaining)
