"""The names of all files of a directory, kept for a moment: who types looks for them with every letter."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from threading import Event
from typing import TypeAlias

from msgspec import Struct

from asyncagents.server.errand import Errands

MOST_KEPT = 4
LONGEST = 30.0
"""Seconds."""
AS_LONG = 20
"""What took a second to find is kept for so many."""


class Names(Struct, frozen=True):
    files: tuple[str, ...]
    """The last changed first."""
    folders: tuple[str, ...]


Walk: TypeAlias = Callable[[str, Event], Names]
"""Of a directory; ends early when the event is set."""


class Index:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, Names]] = OrderedDict()
        self._walking: dict[str, asyncio.Lock] = {}

    async def names(self, errands: Errands, where: str, walk: Walk) -> Names:
        """One looks for all who ask meanwhile."""
        lock = self._walking.setdefault(where, asyncio.Lock())
        try:
            async with lock:
                until, known = self._kept.get(where, (0.0, None))
                now = asyncio.get_running_loop().time()
                return (
                    known if known is not None and now < until else await self._walked(errands, where, walk)
                )
        finally:
            if not lock.locked():
                self._walking.pop(where, None)

    async def _walked(self, errands: Errands, where: str, walk: Walk) -> Names:
        loop, left = asyncio.get_running_loop(), Event()
        began = loop.time()
        try:
            names = await errands.run(lambda: walk(where, left))
        finally:
            left.set()  # if nobody waits any more, the walk ends at the next folder
        now = loop.time()
        self._kept[where] = now + min(LONGEST, AS_LONG * (now - began)), names
        self._kept.move_to_end(where)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return names
