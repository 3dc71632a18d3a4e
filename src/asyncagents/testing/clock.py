"""Clocks and chance under the test's control: a hand-moved clock, the loop's clock, a seeded rng."""

import asyncio
import random

EPOCH_MS = 1_700_000_000_000
"""Where test clocks start: 2023-11-14T22:13:20Z, so that ids and dates look like real ones."""


class FakeClock:
    """Stands still until it is moved."""

    def __init__(self, start_ms: int = EPOCH_MS) -> None:
        self._now = start_ms

    def now(self) -> int:
        return self._now

    def advance(self, ms: int) -> None:
        """Move on by `ms`; a negative number is a clock that jumps back."""
        self._now += ms

    def set(self, ms: int) -> None:
        self._now = ms


class LoopClock:
    """Milliseconds since the epoch that pass as fast as the loop's (virtual) time does."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int = EPOCH_MS) -> None:
        self._loop = loop
        self._start = start_ms

    def now(self) -> int:
        # The microsecond keeps float dust from showing a sleep of 570 ms as 569.
        return self._start + int(self._loop.time() * 1000 + 0.001)


class SeededRng:
    """The same seed gives the same numbers, in every process."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, n: int) -> int:
        """One of 0 … n - 1."""
        return self._random.randrange(n)
