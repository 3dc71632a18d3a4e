"""File names of directories, cached for seconds, since clients search them with every keystroke."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import TypeAlias

from msgspec import Struct

from asyncagents.server.errand import Errands

MOST_KEPT = 4
LONGEST = 30.0
"""Max seconds that names are cached."""
AS_LONG = 20
"""Seconds that names are cached per second that the walk took."""


class Names(Struct, frozen=True):
    files: tuple[str, ...]
    """The last changed first."""
    folders: tuple[str, ...]


Walk: TypeAlias = Callable[[str, Event], Names]
"""Walks a directory; ends early when the event is set."""


class Index:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, Names]] = OrderedDict()
        self._walking: dict[str, asyncio.Future[Names]] = {}

    async def names(self, errands: Errands, where: str, walk: Walk) -> Names:
        """Return cached names, or join the walk in progress; a cancelled request does not cancel the walk."""
        until, known = self._kept.get(where, (0.0, None))
        if known is not None and asyncio.get_running_loop().time() < until:
            return known
        if where not in self._walking:
            self._walking[where] = errands.begin(partial(walk, where, errands.closing))
            began = asyncio.get_running_loop().time()
            self._walking[where].add_done_callback(partial(self._ended, where, began))
        return await errands.told(asyncio.shield(self._walking[where]))

    def _ended(self, where: str, began: float, walked: asyncio.Future[Names]) -> None:
        del self._walking[where]
        if walked.cancelled() or walked.exception() is not None:
            return
        now = walked.get_loop().time()
        self._kept[where] = now + min(LONGEST, AS_LONG * (now - began)), walked.result()
        self._kept.move_to_end(where)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
