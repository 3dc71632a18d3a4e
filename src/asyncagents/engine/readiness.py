"""Whether requests can be stored: a real write, tried for whoever asks, once for all who ask together."""

import asyncio
import logging

from asyncagents.errors import DatabaseGone
from asyncagents.store.health import HealthStore

FRESH_SECONDS = 1.0
"""So long an answer counts: however many ask, a write is tried once in that time."""
LONGEST_SECONDS = 5.0
"""A disk that takes longer counts as one that does not answer."""

NO_ANSWER = f"the store does not answer within {LONGEST_SECONDS:g} s: its disk or its server hangs"
GONE = "the data directory was deleted or replaced while the server ran: put it back, and start again"
FULL = "the disk is full: make room"
FAILS = "the store fails, and the log says why"

_log = logging.getLogger(__name__)


class Readiness:
    """The reasons hold no path and no row: anybody may ask."""

    def __init__(self, store: HealthStore, group: asyncio.TaskGroup) -> None:
        self._store = store
        self._group = group
        self._now = asyncio.get_running_loop().time
        self._trying: asyncio.Task[None] | None = None
        self._began = 0.0
        self._known_until = 0.0
        self._reason: str | None = None

    async def trouble(self) -> str | None:
        """Why requests cannot be stored, in words for anybody; None: they can."""
        if self._trying is None:
            if self._now() < self._known_until:
                return self._reason
            self._began = self._now()
            self._trying = self._group.create_task(self._try())
        left = self._began + LONGEST_SECONDS - self._now()
        done, _ = await asyncio.wait({self._trying}, timeout=max(0.0, left))
        return self._reason if done else NO_ANSWER

    def close(self) -> None:
        if self._trying is not None:
            self._trying.cancel()

    async def _try(self) -> None:
        try:
            await self._store.try_write()
            self._reason = None
        except Exception as error:  # noqa: BLE001  the edge of a try: whoever asks hears of it
            reason = _reason(error)
            if reason != self._reason:
                _log.error("requests cannot be stored", exc_info=error)
            self._reason = reason
        finally:
            self._known_until = self._now() + FRESH_SECONDS
            self._trying = None


def _reason(error: Exception) -> str:
    if isinstance(error, DatabaseGone):
        return GONE
    return FULL if "full" in str(error) or "No space left" in str(error) else FAILS
