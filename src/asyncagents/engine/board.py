"""The status board: tasks by page and batch, sums over all of them, and a stream of their changes."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress

from msgspec.structs import replace

from asyncagents.domain.board import BoardSnapshot, KindFilter, TaskGroup, TaskPage, TaskQuery, TaskStats
from asyncagents.domain.event import (
    SessionDeleted,
    TaskCancelled,
    TaskCleared,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskUpdated,
)
from asyncagents.domain.id import SessionId
from asyncagents.engine.follower import QUEUE, Follower, News
from asyncagents.errors import AsyncAgentsError, Closed
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit
from asyncagents.store.verb.board_feed import Look, Point, point

GAP_SECONDS = 0.02
"""Between two reads; changes in between are sent together."""
PROGRESS_SECONDS = 1.0
SHARE = 10
"""Reading the progress of live tasks takes at most one part in so many of the time."""

_TOLD_AT_ONCE = (
    SessionDeleted, TaskCancelled, TaskCleared, TaskCompleted, TaskCreated, TaskFailed, TaskUpdated,
)  # fmt: skip
_log = logging.getLogger(__name__)


class Board:
    """Get it from a runtime: `runtime.board`.

    One task reads for all subscribers, from `_point` on; None: there is no subscriber.
    """

    def __init__(self, store: Store, *, size: int = QUEUE) -> None:
        self._store = store.board
        self._size = size
        self._point: Point | None = None
        self._followers: dict[Follower, None] = {}
        self._group: asyncio.TaskGroup | None = None
        self._reader: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._next_progress = 0.0
        self._told: dict[SessionId, int] = {}
        """Hash of the last progress sent of each live task, since the last subscriber joined."""
        self._closed = False
        store.listen(self._committed)

    async def page(self, query: TaskQuery) -> TaskPage:
        """List tasks, the newest first."""
        return await self._store.page(query)

    async def group(self, batch_id: str) -> TaskGroup:
        """Return the tasks launched in one turn."""
        return await self._store.group(batch_id)

    async def stats(self) -> TaskStats:
        return await self._store.stats()

    async def count(self) -> int:
        """Count the background tasks."""
        return await self._store.count()

    async def snapshot(self, kind: KindFilter = "background") -> tuple[BoardSnapshot, str]:
        """Return the state that a board begins with, and the cursor to follow it from."""
        return await self._store.snapshot(kind)

    def follow(self, after: str, *, kind: KindFilter = "background") -> AsyncGenerator[News, None]:
        """Stream changes after a cursor, without end: the last state of each task, not each step to it."""
        return self._news(Follower(point(after), kind=kind, size=self._size))

    async def _news(self, follower: Follower) -> AsyncGenerator[News, None]:
        try:
            while not self._closed:
                look = await self._next(follower)
                if look is None:
                    continue
                if look.reset:
                    yield follower.reset(look)
                for news in follower.take(look):
                    yield news
                if follower.cut_off and not look.more:
                    self._join(follower)
        finally:
            self._leave(follower)
        raise Closed("the runtime was closed")

    async def _next(self, follower: Follower) -> Look | None:
        """Return the next look: the shared one, or an own one for a subscriber that is behind."""
        if follower.cut_off:
            return await self._store.look(follower.point, progress=True)
        return await follower.next()

    def _join(self, follower: Follower) -> None:
        """Attach a subscriber to the shared reader, unless the reader is ahead of it."""
        if self._closed:
            return
        if self._point is None:
            self._point = follower.point
        elif self._point.rev > follower.point.rev or self._point.level > follower.point.level:
            return
        follower.join()
        self._followers[follower] = None
        self._told.clear()
        if self._reader is None:
            assert self._group is not None, "the runtime sets the group that owns the reader"
            self._reader = self._group.create_task(self._read_on())

    def _leave(self, follower: Follower) -> None:
        self._followers.pop(follower, None)
        if not self._followers:
            self._point = None
            self._told.clear()
            self._wanted.set()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._cut_all()
        if self._reader is not None:
            self._reader.cancel()

    def _cut_all(self) -> None:
        for follower in list(self._followers):
            follower.cut()
            self._leave(follower)

    def _committed(self, commit: Commit) -> None:
        if self._followers and any(isinstance(event, _TOLD_AT_ONCE) for event in commit.events):
            self._wanted.set()

    def read_in(self, group: asyncio.TaskGroup) -> None:
        """Set the task group that runs the reader."""
        self._group = group

    async def _read_on(self) -> None:
        """Read while there are subscribers: soon after a task changed, and every second for progress."""
        try:
            while self._followers:
                await self._read()
                await asyncio.sleep(GAP_SECONDS)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(self._next_progress):
                        await self._wanted.wait()
                self._wanted.clear()
        except asyncio.CancelledError:  # by its group, which starts nothing more
            self._closed = True
            raise
        except AsyncAgentsError:
            _log.exception("action=board_read failed; each subscriber of the board reads on its own")
        finally:
            self._reader = None
            self._cut_all()

    async def _read(self) -> None:
        clock, before = asyncio.get_running_loop().time, self._point
        if before is None:
            return
        began = clock()
        progress = began >= self._next_progress
        look = await self._store.look(before, progress=progress)
        if progress:
            self._next_progress = clock() + max(PROGRESS_SECONDS, SHARE * (clock() - began))
        if self._point is not before:  # all left meanwhile; a new subscriber began at another point
            return
        if look.reset:
            self._cut_all()
            return
        self._point = look.point
        self._tell(self._unheard(look))
        if look.more:
            self._wanted.set()

    def _unheard(self, look: Look) -> Look:
        """Leave out live tasks whose progress equals what was sent last."""
        for change in look.changes:
            self._told.pop(change.task_id, None)
        moved = tuple(each for each in look.moved if self._told.get(each.task_id) != hash(each.body))
        self._told.update((each.task_id, hash(each.body)) for each in moved)
        return replace(look, moved=moved)

    def _tell(self, look: Look) -> None:
        if not look.changes and not look.moved:
            return
        for follower in list(self._followers):
            if not follower.push(look):
                self._leave(follower)
