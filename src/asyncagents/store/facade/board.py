"""Store facade for status boards."""

from asyncagents.domain.task.board import BoardSnapshot, KindFilter, TaskGroup, TaskPage, TaskQuery, TaskStats
from asyncagents.store.tx import Database
from asyncagents.store.verb import board, board_feed
from asyncagents.store.verb.board_feed import BoardChanges, BoardCursor
from asyncagents.store.verb_runner import VerbRunner


class BoardStore(VerbRunner):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._sums = board.BoardSums()

    async def page(self, query: TaskQuery) -> TaskPage:
        """Read a page of tasks, newest first."""
        return await self._read(lambda tx: board.task_page(tx, query, self._sums))

    async def group(self, batch_id: str) -> TaskGroup:
        return await self._read(lambda tx: board.read_group(tx, batch_id))

    async def stats(self) -> TaskStats:
        return await self._read(self._sums.stats)

    async def count(self) -> int:
        return await self._read(lambda tx: board.count_background(tx, self._sums))

    async def snapshot(self, kind: KindFilter = "background") -> tuple[BoardSnapshot, str]:
        """Read the board and the cursor at which it was read."""
        return await self._read(lambda tx: board.board_snapshot(tx, self._sums, kind))

    async def changes_since(self, after: BoardCursor, *, progress: bool) -> BoardChanges:
        """Read changes after a cursor; with `progress` also live tasks, once the reader is up to date."""
        return await self._read(lambda tx: board_feed.changes_since(tx, after, progress=progress))
