"""The deadlines of a stream: until its first event of meaning, between two signs of life, and in all."""

import asyncio
from collections.abc import Callable
from math import inf

from asyncagents.llm.endpoint import PING_SECONDS


class Watch:
    """Calls `stop` once nothing was heard for so long; 0 seconds is never.

    Bytes of any kind are a sign of life. Signs of life alone keep a stream open for `PING_SECONDS`.
    A word costs one look at the clock: the timer, when it fires, sees how old the last word is and is set
    again to when that will be too old.
    """

    def __init__(self, first_seconds: float, idle_seconds: float, stop: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = stop
        self._last = self._meant = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._idle_seconds: float | None = idle_seconds
        """None: the first event of meaning has come, or the end has."""
        self.seconds = first_seconds
        self.waiting = False
        """Only waiting for the provider counts: whoever reads the events may take their time."""
        self.expired = False
        self._deadline = inf
        self._arm(first_seconds)

    @property
    def begun(self) -> bool:
        """Whether an event of meaning has come."""
        return self._idle_seconds is None

    def touch(self) -> None:
        """Note a sign of life."""
        self._last = self._loop.time()

    def mean(self) -> None:
        """Note an event of meaning."""
        self._last = self._meant = self._loop.time()
        if self._idle_seconds is not None:
            self._allow(self._idle_seconds)

    def limit(self, seconds: float) -> None:
        """From now on no longer than this, be it silent or not."""
        self.touch()
        self._meant = self._last
        self._deadline = self._last + seconds
        own = self.seconds if self._idle_seconds is None else self._idle_seconds
        self._allow(own if 0 < own <= seconds else seconds)

    @property
    def late(self) -> bool:
        """Whether the limit is over; whoever reads a stream that never falls silent has to look."""
        return self._loop.time() >= self._deadline

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _allow(self, seconds: float) -> None:
        """Let a silence last so long from here on."""
        self._idle_seconds = None
        if seconds != self.seconds:
            self.stop()
            self.seconds = seconds
            self._arm(seconds)

    def _arm(self, seconds: float) -> None:
        if seconds > 0:
            self._timer = self._loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        heard = min(self._last + self.seconds, max(self._meant + PING_SECONDS, self._meant + self.seconds))
        left = heard - now if self.waiting else self.seconds
        if left > 0:
            self._arm(left)
            return
        self.expired = True
        self._stop()
