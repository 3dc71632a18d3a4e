"""Check whether all sessions rest, or wait for people and results from outside."""

from msgspec import Struct

from asyncagents.domain.clock import Clock
from asyncagents.domain.id import SessionId
from asyncagents.domain.why import WhyCode
from asyncagents.engine.runtime.tasks import Tasks
from asyncagents.errors import NotFound
from asyncagents.store.store import Store

HORIZON_MS = 3_600_000
"""A row that is due later is no work yet: the next process finds it."""
MOST_CHECKED = 500
"""With so many sessions that are ready, some can work."""
STUCK: frozenset[WhyCode] = frozenset({"no_model", "unreadable"})
"""Why a session that is ready cannot be run by this process, however long it waits."""


class Remainder(Struct, frozen=True, kw_only=True):
    """What stays in the store when a process ends, beside sessions that still work."""

    asks: int
    """Calls that wait for a person."""
    pending: int
    """Calls that wait for a result from outside."""
    stuck: int
    """Sessions that are ready, and that this process cannot run."""
    next_due: int | None
    """When the next row is due, in ms since the epoch."""


class RestCheck:
    """Tells whether a process has anything left to do, and what it leaves if it ends."""

    def __init__(self, store: Store, tasks: Tasks, pools: tuple[str, ...], clock: Clock) -> None:
        self._store = store
        self._tasks = tasks
        self._pools = pools
        self._clock = clock

    async def has_work(self) -> bool:
        """Return whether a session works, can work or is in backoff, or a row is due within the hour."""
        times = await self._store.due_times()
        until = self._clock.now() + HORIZON_MS
        if times.backoff is not None or any(
            time is not None and time <= until
            for time in (times.call, times.task, times.delivery, times.poll)
        ):
            return True
        for pool in self._pools:
            found = await self._store.sessions_with_work(pool, limit=MOST_CHECKED)
            if len(found) == MOST_CHECKED:
                return True
            for session_id in found:
                if await self._can_work(session_id):
                    return True
        return False

    async def _can_work(self, session_id: SessionId) -> bool:
        try:
            return (await self._tasks.why(session_id)).code not in STUCK
        except NotFound:  # deleted meanwhile
            return False

    async def remainder(self) -> Remainder:
        """Count what stays, each kind up to a limit."""
        times, census = await self._store.due_times(), await self._store.census.take(self._pools[0])
        every = times.call, times.task, times.delivery, times.poll
        due = [time for time in every if time is not None]
        stuck = 0
        for pool in self._pools:
            for session_id in await self._store.sessions_with_work(pool, limit=MOST_CHECKED):
                stuck += not await self._can_work(session_id)
        return Remainder(
            asks=census.asks,
            pending=census.pending["waiting"],
            stuck=stuck,
            next_due=min(due, default=None),
        )
