"""The status board: tasks by page and group, sums over all of them, and what changes from here on."""

from asyncagents.domain.board import BoardSnapshot, TaskGroup, TaskPage, TaskQuery, TaskStats
from asyncagents.store.store import Store


class Board:
    """Get it from a runtime: `runtime.board`."""

    def __init__(self, store: Store) -> None:
        self._store = store.board

    async def page(self, query: TaskQuery) -> TaskPage:
        """Newest first."""
        return await self._store.page(query)

    async def group(self, batch_id: str) -> TaskGroup:
        """What was launched in one turn."""
        return await self._store.group(batch_id)

    async def stats(self) -> TaskStats:
        return await self._store.stats()

    async def count(self) -> int:
        """How many tasks there are."""
        return await self._store.count()

    async def snapshot(self) -> tuple[BoardSnapshot, str]:
        """What a board begins with, and the cursor it is true at."""
        return await self._store.snapshot()
