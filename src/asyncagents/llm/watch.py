"""The deadline of a stream that goes on without saying anything."""

import asyncio
from collections.abc import Callable
from math import inf


class Watch:
    """Calls `stop` once nothing of meaning was heard for so long; 0 seconds is never.

    A word costs one look at the clock: the timer, when it fires, sees how old the last word is and is set
    again to when that will be too old.
    """

    def __init__(self, seconds: float, stop: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = stop
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self.seconds = seconds
        self.waiting = False
        """Only waiting for the provider counts: whoever reads the events may take their time."""
        self.expired = False
        self._deadline = inf
        self._arm(seconds)

    def touch(self) -> None:
        self._last = self._loop.time()

    def limit(self, seconds: float) -> None:
        """From now on no longer than this, be it silent or not."""
        self.touch()
        self._deadline = self._last + seconds
        if not 0 < self.seconds <= seconds:
            self.stop()
            self.seconds = seconds
            self._arm(seconds)

    @property
    def late(self) -> bool:
        """Whether the limit is over; whoever reads a stream that never falls silent has to look."""
        return self._loop.time() >= self._deadline

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, seconds: float) -> None:
        if seconds > 0:
            self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        left = self._last + self.seconds - self._loop.time() if self.waiting else self.seconds
        if left > 0:
            self._arm(left)
            return
        self.expired = True
        self._stop()
