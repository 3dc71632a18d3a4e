"""One subscriber of the status board: its position, and the changes queued for it."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

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
from asyncagents.domain.task.board import BoardSnapshot, KindFilter, TaskGroup, TaskPage, TaskQuery, TaskStats
from asyncagents.domain.task.board_feed import (
    BoardChanges,
    BoardCursor,
    TaskChange,
    TaskProgressed,
    filter_kind,
    parse_board_cursor,
)
from asyncagents.engine.event.queue import BoundedQueue
from asyncagents.errors import AsyncAgentsError, Closed
from asyncagents.store.store import Store
from asyncagents.store.tx import Commit

MAX_QUEUED_CHANGES = 1024


class BoardUpdate(Struct, frozen=True):
    """`type`: `task.created`, `task.updated`, `task.completed`, `task.error` or `task.cancelled`, with the
    whole task; `task.removed`, with its `sessionID`; or `reset`: take a fresh snapshot.

    After applying it, a client can follow from `cursor` without missing anything.
    """

    cursor: str
    type: str
    body: bytes


class BoardSubscriber(BoundedQueue[BoardChanges]):
    """Looks are shared with all subscribers; one that falls behind is detached and queues nothing."""

    def __init__(
        self, point: BoardCursor, *, kind: KindFilter = "background", size: int = MAX_QUEUED_CHANGES
    ) -> None:
        super().__init__(size)
        self.point = point
        self.lagging = True
        self._kind = kind
        self._queued = 0
        self._created: set[SessionId] = set()

    def attach(self) -> None:
        self.lagging = False

    def push(self, board_changes: BoardChanges) -> bool:
        """Queue a look. Returns False if the subscriber has fallen behind and was detached."""
        size = len(board_changes.changes) + len(board_changes.moved)
        if self._items and self._queued + size > self._size:
            self.detach()
            return False
        self._items.append(board_changes)
        self._queued += size
        self._ready.set()
        return True

    def detach(self) -> None:
        """Drop the queue; the subscriber reads from the store, from its point."""
        self.lagging = True
        self._items.clear()
        self._queued = 0
        self._ready.set()

    async def next(self) -> BoardChanges | None:
        """Wait for the next look; None if the subscriber was detached."""
        await self.wait()
        if self.lagging:
            return None
        board_changes = self._items.popleft()
        self._queued -= len(board_changes.changes) + len(board_changes.moved)
        return board_changes

    def reset_to(self, board_changes: BoardChanges) -> BoardUpdate:
        self.point = board_changes.point
        self._created.clear()
        return BoardUpdate(str(board_changes.point), "reset", b"{}")

    def apply(self, board_changes: BoardChanges) -> Iterator[BoardUpdate]:
        """Yield the updates of a look that are new to this subscriber, and advance its point."""
        board_changes = filter_kind(board_changes, self._kind, self.point.base)
        fresh = [each for each in board_changes.changes if each.rev > self.point.rev]
        known = [
            each
            for each in board_changes.changes
            if each.rev <= self.point.rev and each.became == "task.updated"
        ]
        for each, following in zip_longest(fresh, fresh[1:]):
            before = str(self.point)
            *first, last = self._event_types(each)
            if following is None:
                self._advance_point(board_changes)
            elif following.rev > each.rev:
                self.point = replace(self.point, rev=each.rev)
            yield from (BoardUpdate(before, kind, each.body) for kind in first)
            yield BoardUpdate(str(self.point), last, each.body)
        self._advance_point(board_changes)
        yield from self._progress_updates(board_changes, [*known, *board_changes.moved])

    def _advance_point(self, board_changes: BoardChanges) -> None:
        """Advance the point to a look's revision, after its last piece also the base: all tasks are known."""
        rev = max(self.point.rev, board_changes.point.rev)
        self.point = replace(self.point, rev=rev, base=self.point.base if board_changes.more else rev)
        if not board_changes.more:
            self._created.clear()

    def _event_types(self, change: TaskChange) -> tuple[str, ...]:
        """Return the event types of a change; a task that was created and ended since has both."""
        if change.became == "task.removed":
            self._created.discard(change.task_id)
            return (change.became,)
        is_new = change.born > self.point.base and change.task_id not in self._created
        has_ended = change.became != "task.updated" and change.done > self.point.base
        if is_new:
            self._created.add(change.task_id)
            return ("task.created", change.became) if has_ended else ("task.created",)
        return (change.became,) if has_ended else ("task.updated",)

    def _progress_updates(
        self, board_changes: BoardChanges, moved: list[TaskChange | TaskProgressed]
    ) -> Iterator[BoardUpdate]:
        """Yield progress, also of tasks whose rows were known: progress is not in their rows."""
        if board_changes.point.level <= self.point.level:  # the subscriber has read newer progress
            return
        for each, following in zip_longest(moved, moved[1:]):
            if following is None:
                self.point = replace(self.point, level=board_changes.point.level)
            yield BoardUpdate(str(self.point), "task.updated", each.body)
        self.point = replace(self.point, level=board_changes.point.level)


READ_INTERVAL_SECONDS = 0.02
"""Between two reads; changes in between are sent together."""
PROGRESS_SECONDS = 1.0
PROGRESS_TIME_SHARE = 10
"""Reading the progress of live tasks takes at most one part in so many of the time."""

_IMMEDIATE_EVENTS = (
    SessionDeleted, TaskCancelled, TaskCleared, TaskCompleted, TaskCreated, TaskFailed, TaskUpdated,
)  # fmt: skip
_log = logging.getLogger(__name__)


class Board:
    """Show the tasks of all sessions to a dashboard, and follow their changes."""

    def __init__(self, store: Store, *, size: int = MAX_QUEUED_CHANGES) -> None:
        self._store = store.board
        self._size = size
        # One task reads for all subscribers, from here on; None: there is no subscriber.
        self._point: BoardCursor | None = None
        self._subscribers: dict[BoardSubscriber, None] = {}
        self._group: asyncio.TaskGroup | None = None
        self._reader: asyncio.Task[None] | None = None
        self._read_wanted = asyncio.Event()
        self._next_progress = 0.0
        self._last_sent: dict[SessionId, int] = {}
        """Hash of the last progress sent of each live task, since the last subscriber joined."""
        self._closed = False
        store.listen(self._on_commit)

    async def page(self, query: TaskQuery) -> TaskPage:
        """List tasks, the newest first."""
        return await self._store.page(query)

    async def group(self, batch_id: str) -> TaskGroup:
        """Return the tasks launched in one turn."""
        return await self._store.group(batch_id)

    async def stats(self) -> TaskStats:
        """Return statistics of all background tasks."""
        return await self._store.stats()

    async def count(self) -> int:
        """Count the background tasks."""
        return await self._store.count()

    async def snapshot(self, kind: KindFilter = "background") -> tuple[BoardSnapshot, str]:
        """Return the state that a board begins with, and the cursor to follow it from."""
        return await self._store.snapshot(kind)

    def follow(self, after: str, *, kind: KindFilter = "background") -> AsyncGenerator[BoardUpdate, None]:
        """Stream changes after a cursor, without end: the last state of each task, not each step to it."""
        return self._stream_updates(BoardSubscriber(parse_board_cursor(after), kind=kind, size=self._size))

    async def _stream_updates(self, subscriber: BoardSubscriber) -> AsyncGenerator[BoardUpdate, None]:
        try:
            while not self._closed:
                board_changes = await self._next_look(subscriber)
                if board_changes is None:
                    continue
                if board_changes.reset:
                    yield subscriber.reset_to(board_changes)
                for update in subscriber.apply(board_changes):
                    yield update
                if subscriber.lagging and not board_changes.more:
                    self._join(subscriber)
        finally:
            self._leave(subscriber)
        raise Closed("the runtime was closed")

    async def _next_look(self, subscriber: BoardSubscriber) -> BoardChanges | None:
        """Return the next look: the shared one, or an own one for a subscriber that is behind."""
        if subscriber.lagging:
            return await self._store.changes_since(subscriber.point, progress=True)
        return await subscriber.next()

    def _join(self, subscriber: BoardSubscriber) -> None:
        """Attach a subscriber to the shared reader, unless the reader is ahead of it."""
        if self._closed:
            return
        if self._point is None:
            self._point = subscriber.point
        elif self._point.rev > subscriber.point.rev or self._point.level > subscriber.point.level:
            return
        subscriber.attach()
        self._subscribers[subscriber] = None
        self._last_sent.clear()
        if self._reader is None:
            assert self._group is not None, "the runtime sets the group that owns the reader"
            self._reader = self._group.create_task(self._read_forever())

    def _leave(self, subscriber: BoardSubscriber) -> None:
        self._subscribers.pop(subscriber, None)
        if not self._subscribers:
            self._point = None
            self._last_sent.clear()
            self._read_wanted.set()

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._detach_all()
        if self._reader is not None:
            self._reader.cancel()

    def _detach_all(self) -> None:
        for subscriber in list(self._subscribers):
            subscriber.detach()
            self._leave(subscriber)

    def _on_commit(self, commit: Commit) -> None:
        if self._subscribers and any(isinstance(event, _IMMEDIATE_EVENTS) for event in commit.events):
            self._read_wanted.set()

    def set_task_group(self, group: asyncio.TaskGroup) -> None:
        """Set the task group that runs the reader."""
        self._group = group

    async def _read_forever(self) -> None:
        """Read while there are subscribers: soon after a task changed, and every second for progress."""
        try:
            while self._subscribers:
                await self._read()
                await asyncio.sleep(READ_INTERVAL_SECONDS)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(self._next_progress):
                        await self._read_wanted.wait()
                self._read_wanted.clear()
        except asyncio.CancelledError:  # by its group, which starts nothing more
            self._closed = True
            raise
        except AsyncAgentsError:
            _log.exception("action=board_read failed; each subscriber of the board reads on its own")
        finally:
            self._reader = None
            self._detach_all()

    async def _read(self) -> None:
        clock, before = asyncio.get_running_loop().time, self._point
        if before is None:
            return
        began = clock()
        progress = began >= self._next_progress
        board_changes = await self._store.changes_since(before, progress=progress)
        if progress:
            self._next_progress = clock() + max(PROGRESS_SECONDS, PROGRESS_TIME_SHARE * (clock() - began))
        if self._point is not before:  # all left meanwhile; a new subscriber began at another point
            return
        if board_changes.reset:
            self._detach_all()
            return
        self._point = board_changes.point
        self._push_to_all(self._without_repeats(board_changes))
        if board_changes.more:
            self._read_wanted.set()

    def _without_repeats(self, board_changes: BoardChanges) -> BoardChanges:
        """Leave out live tasks whose progress equals what was sent last."""
        for change in board_changes.changes:
            self._last_sent.pop(change.task_id, None)
        moved = tuple(
            each for each in board_changes.moved if self._last_sent.get(each.task_id) != hash(each.body)
        )
        self._last_sent.update((each.task_id, hash(each.body)) for each in moved)
        return replace(board_changes, moved=moved)

    def _push_to_all(self, board_changes: BoardChanges) -> None:
        if not board_changes.changes and not board_changes.moved:
            return
        for subscriber in list(self._subscribers):
            if not subscriber.push(board_changes):
                self._leave(subscriber)
