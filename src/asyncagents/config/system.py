"""What the machine gives: the time, and what nobody can guess."""

import os
import threading
import time
from weakref import WeakSet

PAGE = 8192


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000


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
