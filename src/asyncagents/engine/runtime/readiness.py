"""Check whether requests can be stored, by a real write that concurrent checks share."""

import asyncio
import logging

from asyncagents.errors import DatabaseGone
from asyncagents.store.facade import HealthStore

FRESH_SECONDS = 1.0
"""How long a result is cached: a write is tried at most once in that time."""
TIMEOUT_SECONDS = 5.0
"""A write that takes longer counts as failed."""

NO_ANSWER = f"the store does not answer within {TIMEOUT_SECONDS:g} s: its disk or its server hangs"
GONE = "the data directory was deleted or replaced while the server ran: put it back, and start again"
FULL = "the disk is full: make room"
FAILS = "the store fails, and the log says why"

_log = logging.getLogger(__name__)


class Readiness:
    """Its reasons hold no paths and no data, so that the check can be public."""

    def __init__(self, store: HealthStore, group: asyncio.TaskGroup) -> None:
        self._store = store
        self._group = group
        self._now = asyncio.get_running_loop().time
        self._write_task: asyncio.Task[None] | None = None
        self._began = 0.0
        self._known_until = 0.0
        self._reason: str | None = None

    async def trouble(self) -> str | None:
        """Return why requests cannot be stored, without details; None: they can."""
        if self._write_task is None:
            if self._now() < self._known_until:
                return self._reason
            self._began = self._now()
            self._write_task = self._group.create_task(self._try_write())
        left = self._began + TIMEOUT_SECONDS - self._now()
        done, _ = await asyncio.wait({self._write_task}, timeout=max(0.0, left))
        return self._reason if done else NO_ANSWER

    def close(self) -> None:
        if self._write_task is not None:
            self._write_task.cancel()

    async def _try_write(self) -> None:
        try:
            await self._store.try_write()
            self._reason = None
        except Exception as error:  # noqa: BLE001  the edge of a try: the caller gets a reason
            reason = _reason(error)
            if reason != self._reason:
                _log.error("action=try_write requests cannot be stored: %s", reason, exc_info=error)
            self._reason = reason
        finally:
            self._known_until = self._now() + FRESH_SECONDS
            self._write_task = None


def _reason(error: Exception) -> str:
    if isinstance(error, DatabaseGone):
        return GONE
    return FULL if "full" in str(error) or "No space left" in str(error) else FAILS
