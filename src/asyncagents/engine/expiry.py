"""Expire overdue rows; a row that fails is postponed, so that it stops neither the sweep nor other rows."""

import logging
from collections.abc import Callable

from asyncagents.domain.clock import Clock
from asyncagents.domain.session_state import SWEEP_ROWS
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.errors import StuckRow
from asyncagents.store.facade import DueStore

POSTPONE_MS = 3_600_000
MAX_LOGGED_ROWS = 10_000

_log = logging.getLogger(__name__)


class Expiry:
    """Calls `count_stuck` with the kind of each row that is postponed."""

    def __init__(self, store: DueStore, clock: Clock, observer: Observer = NOOP_OBSERVER) -> None:
        self._store = store
        self._clock = clock
        self._observer = observer
        self._logged: set[tuple[str, str]] = set()
        self.count_stuck: Callable[[str], None] = lambda kind: None

    async def expire(self) -> None:
        """Expire all overdue rows, a piece per transaction. Raises `StoreError` if the store fails."""
        while True:
            try:
                if await self._store.expire() < SWEEP_ROWS:
                    return
            except StuckRow as stuck:
                await self._store.put_off(stuck.kind, stuck.id, self._clock.now() + POSTPONE_MS)
                self.count_stuck(stuck.kind)
                if isinstance(stuck.__cause__, Exception):
                    self._observer.report_fault("sweep", stuck.__cause__)
                self._log_stuck(stuck)

    def _log_stuck(self, stuck: StuckRow) -> None:
        """Log a stuck row as an error once; it fails again after each pause."""
        row = (stuck.kind, stuck.id)
        if row in self._logged:
            _log.debug("action=expire %s; postponed again", stuck)
            return
        if len(self._logged) < MAX_LOGGED_ROWS:
            self._logged.add(row)
        _log.error("action=expire %s; retrying every hour", stuck, exc_info=stuck)
