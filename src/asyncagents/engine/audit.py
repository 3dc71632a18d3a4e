"""Clean the store now and then: conclude tasks that were missed and delete rows that expired."""

import logging

from asyncagents.domain.clock import Clock
from asyncagents.domain.session_state import SWEEP_ROWS
from asyncagents.engine.expiry import Expiry
from asyncagents.errors import Damaged, StoreError
from asyncagents.store.store import Store

AUDIT_MS = 600_000
MAX_PIECES = 20

_log = logging.getLogger(__name__)


class Audit:
    def __init__(self, store: Store, clock: Clock, expiry: Expiry, *, keep_ms: int) -> None:
        """`keep_ms`: how long settled calls and their deliveries are kept."""
        self._store = store
        self._clock = clock
        self._expiry = expiry
        self._keep_ms = keep_ms
        self._next = 0

    async def run_if_due(self) -> bool:
        """Every 10 minutes: conclude missed tasks, delete expired rows. Returns True if more is left."""
        if self._clock.now() < self._next:
            return False
        await self._conclude_tasks()
        if more := await self._delete_expired():
            return more
        self._next = self._clock.now() + AUDIT_MS
        return False

    async def _delete_expired(self) -> bool:
        """Delete old rows, a limited number of pieces (due rows come first). Return True if more is left."""
        before, more = self._clock.now() - self._keep_ms, False
        for forget in (self._store.pending.forget_settled, self._store.deliveries.forget):
            for _ in range(MAX_PIECES):
                if await forget(before, SWEEP_ROWS) < SWEEP_ROWS:
                    break
            else:
                more = True
        return more

    async def _conclude_tasks(self) -> None:
        for task_id in await self._store.unconcluded_tasks():
            try:
                await self._store.conclude_task(task_id)
            except Exception as error:  # the edge of a row: the others go on
                if isinstance(error, StoreError) and not isinstance(error, Damaged):
                    raise
                self._expiry.count_stuck("task")
                _log.exception("task=%s action=conclude failed", task_id)
