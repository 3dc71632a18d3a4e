"""Idle timeout of a stream: until its first content, between two chunks, and for pings alone."""

import asyncio
from collections.abc import Callable
from math import inf

from asyncagents.llm.http.request import PING_SECONDS


class IdleTimeout:
    """Calls `stop` after a silence of the given seconds; 0 disables the timeout.

    Any bytes end a silence; bytes without content keep a stream open for `PING_SECONDS` at most.
    Activity only stores the time: the timer, when it fires, checks the age of the last activity and
    re-arms itself.
    """

    def __init__(self, first_seconds: float, idle_seconds: float, stop: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_expired = stop
        self._last_activity = self._last_content = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._idle_seconds: float | None = idle_seconds
        """None once the first content or the finish reason has arrived."""
        self.seconds = first_seconds
        self.waiting = False
        """Whether the stream waits for the provider; the time that the consumer takes does not count."""
        self.expired = False
        self._deadline = inf
        self._arm(first_seconds)

    @property
    def has_started(self) -> bool:
        """Return whether content has arrived."""
        return self._idle_seconds is None

    def touch(self) -> None:
        """Record the arrival of bytes."""
        self._last_activity = self._loop.time()

    def note_content(self) -> None:
        """Record the arrival of content."""
        self._last_activity = self._last_content = self._loop.time()
        if self._idle_seconds is not None:
            self._set_idle_limit(self._idle_seconds)

    def set_limit(self, seconds: float) -> None:
        """End the stream after `seconds` from now, silent or not."""
        self.touch()
        self._last_content = self._last_activity
        self._deadline = self._last_activity + seconds
        own = self.seconds if self._idle_seconds is None else self._idle_seconds
        self._set_idle_limit(own if 0 < own <= seconds else seconds)

    @property
    def is_late(self) -> bool:
        """Return whether the limit has passed; readers must check it, since the timer only sees silence."""
        return self._loop.time() >= self._deadline

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_idle_limit(self, seconds: float) -> None:
        """Set the longest silence from now on."""
        self._idle_seconds = None
        if seconds != self.seconds:
            self.stop()
            self.seconds = seconds
            self._arm(seconds)

    def _arm(self, seconds: float) -> None:
        if seconds > 0:
            self._timer = self._loop.call_later(seconds, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        idle_deadline = min(
            self._last_activity + self.seconds,
            max(self._last_content + PING_SECONDS, self._last_content + self.seconds),
        )
        left = idle_deadline - now if self.waiting else self.seconds
        if left > 0:
            self._arm(left)
            return
        self.expired = True
        self._on_expired()
