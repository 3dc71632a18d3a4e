"""The queue of one event stream, bounded; a stream that falls behind catches up from the store."""

import asyncio
import sys
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from asyncagents.domain.event import Event, PartDelta, UnknownEvent
from asyncagents.engine.follow import later, still_new
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
