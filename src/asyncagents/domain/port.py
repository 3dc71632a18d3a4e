"""What the domain needs from outside: the time and chance."""

from typing import Protocol


class Clock(Protocol):
    def now(self) -> int:
        """Milliseconds since the epoch."""
        ...


class Rng(Protocol):
    def below(self, n: int) -> int:
        """A whole number in `0 … n - 1`, each as likely as the others."""
        ...
