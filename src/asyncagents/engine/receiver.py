"""What one stream of everything has not taken yet, and what becomes of it when it does not keep up."""

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
"""So many are kept for one who does not take them: what 200 streams of text say in a second."""
BYTES = 4 * 1024 * 1024
"""And no more than that of them; they are the same bytes for all who do not."""
GATHER_SECONDS = 0.01
"""Nobody sees that it was not told before."""
ALWAYS = sys.maxsize
"""The revision of what no row tells: nobody catches up on it."""


class Place(Struct, frozen=True):
    """Where a session works."""

    directory: str
    project: str


class Item(NamedTuple):
    """An event, and the revision that was being told when it came. `body`: its JSON, the same for all."""

    at: int
    event: Event | UnknownEvent
    body: bytes
    place: Place | None
    """None: it is of no session, or it is not known yet where that works."""


class Receiver:
    """Items are shared with all others. Who does not keep up is cut off, and costs nothing until he does."""

    def __init__(
        self, directory: str | None, cursor: str, *, size: int = FRAMES, most_bytes: int = BYTES
    ) -> None:
        self.directory = directory
        self.cursor = cursor
        """All that came before it was taken, or told otherwise."""
        self.taken_at = 0
        """When that was, in ms since the epoch."""
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
        """Something was not kept that no store tells again."""

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
        """A last item that is too large by itself is read from the store as well."""
        self.lost = self.lagging
        self.lagging = True
        self._keep(item for item in self._items if item.at == ALWAYS)

    def close(self) -> None:
        self.closed = True
        self._news.set()

    def listen_again(self) -> None:
        """From here on everything is kept; what came before has to be told otherwise."""
        self.lagging = False

    def skip(self, growing: list[Item]) -> None:
        """What was told otherwise is not told again."""
        self._told = at_revision(self.cursor)
        self._keep(still_new(self._items, self._told, [item.event for item in growing]))

    def take(self, upto: int) -> list[Item]:
        """All that there is, up to a revision."""
        items = list(self._items)
        self._keep(())
        self.cursor = later(self.cursor, upto)
        return items

    def _keep(self, items: Iterable[Item]) -> None:
        self._items = deque(items)
        self._bytes = sum(len(item.body) for item in self._items)

    async def news(self) -> None:
        """Returns when there is something to do: at once after a silence, else what comes together is told
        together, which is the half of what telling it costs."""
        while not (self._items or self.lagging or self.closed):
            self._news.clear()
            await self._news.wait()
        now = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._told_at + GATHER_SECONDS - now()))
        self._told_at = now()
