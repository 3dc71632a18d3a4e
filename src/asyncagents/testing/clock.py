"""Clocks and random numbers for tests: a manual clock, the loop's clock, a seeded rng."""

import asyncio
import random

EPOCH_MS = 1_700_000_000_000
"""The start of test clocks: 2023-11-14T22:13:20Z, so that ids and dates look real."""


class FakeClock:
    """A clock that only moves by `advance` and `set`."""

    def __init__(self, start_ms: int = EPOCH_MS) -> None:
        self._now = start_ms

    def now(self) -> int:
        return self._now

    def advance(self, ms: int) -> None:
        """Move the clock by `ms`, which may be negative."""
        self._now += ms

    def set(self, ms: int) -> None:
        self._now = ms


class LoopClock:
    """A clock that follows the loop's (virtual) time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start_ms: int = EPOCH_MS) -> None:
        self._loop = loop
        self._start = start_ms

    def now(self) -> int:
        # The microsecond compensates rounding: a sleep of 570 ms would show as 569.
        return self._start + int(self._loop.time() * 1000 + 0.001)


class SeededRng:
    """Random numbers that depend only on the seed, in every process."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, n: int) -> int:
        """Return a number from 0 to n - 1."""
        return self._random.randrange(n)
