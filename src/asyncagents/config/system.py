"""What the machine gives: the time, and what nobody can guess."""

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from weakref import WeakSet

from asyncagents.errors import ConfigError

PAGE = 8192


class SystemClock:
    def now(self) -> int:
        """A clock that is set to a time before 1970 stands still there: no id and no row has such a time."""
        return max(0, time.time_ns() // 1_000_000)

    def check(self) -> None:
        """Raise `ConfigError` if the clock is not set: ids, deadlines and the order of messages go by it."""
        seconds = time.time_ns() // 1_000_000_000
        if seconds < 0:
            says = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
            raise ConfigError(f"the machine's clock says {says:%Y-%m-%d %H:%M} UTC: set it, and start again")


class SystemRng:
    """From the system's own source, a page at a time: a call for each id would cost more than the id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = b""
        self._at = 0
        _drawing.add(self)

    def below(self, n: int) -> int:
        """With 64 bits to spare: not to be guessed, and even."""
        size = (n.bit_length() + 71) // 8
        with self._lock:
            if len(self._pool) < self._at + size:
                self._pool, self._at = os.urandom(max(PAGE, size)), 0
            begin, self._at = self._at, self._at + size
            taken = self._pool[begin : self._at]
        return int.from_bytes(taken) % n

    def forget(self) -> None:
        """A forked process must not draw what its parent draws."""
        self._lock = threading.Lock()
        self._pool, self._at = b"", 0


_drawing: WeakSet[SystemRng] = WeakSet()


def _forget() -> None:
    for rng in list(_drawing):
        rng.forget()


os.register_at_fork(after_in_child=_forget)
