"""The door for status boards."""

from asyncagents.domain.board import BoardSnapshot, TaskGroup, TaskPage, TaskQuery, TaskStats
from asyncagents.store.door import Door
from asyncagents.store.verb import board


class BoardStore(Door):
    async def page(self, query: TaskQuery) -> TaskPage:
        """Newest first."""
        return await self._read(lambda tx: board.page(tx, query))

    async def group(self, batch_id: str) -> TaskGroup:
        return await self._read(lambda tx: board.group(tx, batch_id))

    async def stats(self) -> TaskStats:
        return await self._read(board.stats)

    async def count(self) -> int:
        return await self._read(board.count)

    async def snapshot(self) -> tuple[BoardSnapshot, str]:
        """And the cursor it is true at."""
        return await self._read(board.snapshot)
