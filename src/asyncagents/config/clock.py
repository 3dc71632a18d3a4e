"""The system clock and the system's random numbers."""

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from weakref import WeakSet

from asyncagents.errors import ConfigError

PAGE = 8192


class SystemClock:
    def now(self) -> int:
        """Return ms since the epoch, at least 0: ids and rows have no earlier time."""
        return max(0, time.time_ns() // 1_000_000)

    def check(self) -> None:
        """Raise `ConfigError` if the clock is before 1970: ids, deadlines and message order depend on it."""
        seconds = time.time_ns() // 1_000_000_000
        if seconds < 0:
            says = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
            raise ConfigError(f"the system clock is at {says:%Y-%m-%d %H:%M} UTC: set it, and start again")


class SystemRng:
    """Random numbers of the operating system, read in pages: a system call per id would be slow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = b""
        self._at = 0
        _instances.add(self)

    def below(self, n: int) -> int:
        """Return an unpredictable number below `n`; 64 extra bits make the distribution even."""
        size = (n.bit_length() + 71) // 8
        with self._lock:
            if len(self._pool) < self._at + size:
                self._pool, self._at = os.urandom(max(PAGE, size)), 0
            begin, self._at = self._at, self._at + size
            taken = self._pool[begin : self._at]
        return int.from_bytes(taken) % n

    def forget(self) -> None:
        """Drop buffered bytes in a forked process, which must not use those of its parent."""
        self._lock = threading.Lock()
        self._pool, self._at = b"", 0


_instances: WeakSet[SystemRng] = WeakSet()


def _forget() -> None:
    for rng in list(_instances):
        rng.forget()


os.register_at_fork(after_in_child=_forget)
