"""Coalesce concurrent reads of the parent: all launches of one step share one query."""

import asyncio

from asyncagents.domain.id import SessionId
from asyncagents.domain.task.task import Launcher
from asyncagents.store.store import Store


class SharedRead:
    """Shares one read per session: the first launch reads, concurrent ones wait for its result."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[SessionId, list[asyncio.Future[Launcher | None]]] = {}

    async def read(self, session_id: SessionId) -> tuple[Launcher, int]:
        """Return the parent, and how many launches share this read before this one."""
        while (waiting := self._waiting.get(session_id)) is not None:
            mine: asyncio.Future[Launcher | None] = asyncio.get_running_loop().create_future()
            waiting.append(mine)
            before = len(waiting)
            seen = await mine
            if seen is not None:  # None: the reading launch failed or was cancelled, so read again
                return seen, before
        return await self._read(session_id), 0

    async def _read(self, session_id: SessionId) -> Launcher:
        waiting = self._waiting[session_id] = []
        seen: Launcher | None = None
        try:
            seen = await self._store.launcher(session_id)
        finally:
            del self._waiting[session_id]
            for each in waiting:
                if not each.done():
                    each.set_result(seen)
        return seen
