"""When other processes are told of what was committed: soon, gathered, and by one of those who could."""

import msgspec

from asyncagents.domain.port import Rng

GATHER_SECONDS = 0.025
"""What is committed together is told together, and by one of those who committed at the same time."""
HEARD_SECONDS = 0.01
"""All have heard of what was told so long ago; if not, they look by themselves in a while."""
LONGEST = 7_900
"""Bytes that one notification can carry."""
EVERY_POOL = "*"
NEW_WORK = f'["{EVERY_POOL}"]'


def pools_of(said: str) -> frozenset[str]:
    """Those for whose workers there is something in the queue."""
    return frozenset(msgspec.json.decode(said, type=list[str])) if said else frozenset()


class News:
    """Times are the loop's. Work is told of at once, unless somebody did so a moment ago."""

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self.at: float | None = None
        """When to tell; None: there is nothing to be told."""
        self._pools: set[str] = set()
        self._last = 0.0
        """When the last of what is not told yet was committed."""
        self._told = 0.0
        """When somebody told of work."""

    def committed(self, now: float, pools: frozenset[str]) -> None:
        """`pools`: those in whose queue it has put something."""
        self._last = now
        self._pools |= pools
        at = max(now, self._told + self._a_while()) if pools else now + GATHER_SECONDS
        self.at = at if self.at is None else min(at, self.at)

    def heard(self, now: float, pools: frozenset[str]) -> None:
        """All look at what was committed by then: what we did a while ago need not be told again. But of work
        we tell ourselves: when the other one told, and not when we heard of it, is what counts."""
        if pools:
            self._told = now
        if self._last < now - HEARD_SECONDS and not self._pools:
            self._done()

    def say(self, now: float) -> str:
        """What is to be told now."""
        said = msgspec.json.encode(sorted(self._pools)).decode() if self._pools else ""
        if self._pools:
            self._told = now
        self._done()
        return said if len(said.encode()) <= LONGEST else NEW_WORK

    def _done(self) -> None:
        self.at = None
        self._pools.clear()

    def _a_while(self) -> float:
        """Not the same for all: so one of them is the first, and the others hear of it in time."""
        return GATHER_SECONDS * (0.5 + self._rng.below(1000) / 1000)
