"""Protocols of what the domain needs from outside: the clock and random numbers."""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Return the time in ms since the epoch."""
        ...


class Rng(Protocol):
    def below(self, n: int) -> int:
        """Return a uniformly random integer in `0 … n - 1`."""
        ...
