"""Limits PgQueuer's notifications: by default every change makes every worker query four times."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from asyncagents.domain.clock import Rng
from asyncagents.store.postgres.pool import Connection

GAP_SECONDS = 0.02
"""Min pause between two dequeues after hints."""
SPREAD_SECONDS = 0.002
"""Random delay per worker process: the first with capacity takes the jobs, the others query later."""

_CHANGED = {
    "type": "table_changed_event",
    "table": "pgqueuer",
    "operation": "insert",
    "sent_at": "1970-01-01T00:00:00Z",
}


class GatedDriver(AsyncpgDriver):
    """Does not LISTEN: the control connection hints that there are jobs. Many hints become one dequeue, and
    the processes of a fleet do not dequeue at the same moment."""

    def __init__(self, connection: Connection, rng: Rng, peer_count: Callable[[], int]) -> None:
        super().__init__(connection)
        self._rng = rng
        self._peers = peer_count
        self._listener: Callable[[str], None] = lambda payload: None
        self._channel = ""
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def add_listener(self, channel: str, callback: Callable[[str], None]) -> None:
        self._channel, self._listener = channel, callback

    async def notify(self, channel: str, payload: str) -> None:
        """Answer PgQueuer's check of its own listener."""
        self._listener(payload)

    def hint(self) -> None:
        """Dequeue soon: there may be new jobs."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            spread = (self._peers() - 1) * SPREAD_SECONDS * self._rng.below(1000) / 1000
            self._timer = loop.call_at(max(self._next, loop.time() + spread), self.dequeue_now)

    def dequeue_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._next = asyncio.get_running_loop().time() + GAP_SECONDS
        self._listener(msgspec.json.encode(_CHANGED | {"channel": self._channel}).decode())


class GatedQueries(Queries):
    async def log_jobs(self, job_status: list[Any]) -> None:
        """Dequeue after jobs are done: there is capacity for others."""
        await super().log_jobs(job_status)
        if isinstance(self.driver, GatedDriver):
            self.driver.dequeue_now()
