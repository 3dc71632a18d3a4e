"""One subscriber of the status board: its position, and the changes queued for it."""

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.board import KindFilter
from asyncagents.domain.id import SessionId
from asyncagents.store.verb.board_feed import Change, Look, Moved, Point, narrowed

QUEUE = 1024


class News(Struct, frozen=True):
    """`type`: `task.created`, `task.updated`, `task.completed`, `task.error` or `task.cancelled`, with the
    whole task; `task.removed`, with its `sessionID`; or `reset`: take a fresh snapshot.

    After applying it, a client can follow from `cursor` without missing anything.
    """

    cursor: str
    type: str
    body: bytes


class Follower:
    """Looks are shared with all subscribers; one that falls behind is detached and queues nothing."""

    def __init__(self, point: Point, *, kind: KindFilter = "background", size: int = QUEUE) -> None:
        self.point = point
        self._kind = kind
        self._size = size
        self._looks: deque[Look] = deque()
        self._waiting = 0
        self._created: set[SessionId] = set()
        self._news = asyncio.Event()
        self.cut_off = True

    def join(self) -> None:
        self.cut_off = False

    def push(self, look: Look) -> bool:
        """Queue a look. Returns False if the subscriber has fallen behind and was detached."""
        size = len(look.changes) + len(look.moved)
        if self._looks and self._waiting + size > self._size:
            self.cut()
            return False
        self._looks.append(look)
        self._waiting += size
        self._news.set()
        return True

    def cut(self) -> None:
        """Drop the queue; the subscriber reads from the store, from its point."""
        self.cut_off = True
        self._looks.clear()
        self._waiting = 0
        self._news.set()

    async def next(self) -> Look | None:
        """Wait for the next look; None if the subscriber was detached."""
        while not self._looks and not self.cut_off:
            self._news.clear()
            await self._news.wait()
        if self.cut_off:
            return None
        look = self._looks.popleft()
        self._waiting -= len(look.changes) + len(look.moved)
        return look

    def reset(self, look: Look) -> News:
        self.point = look.point
        self._created.clear()
        return News(str(look.point), "reset", b"{}")

    def take(self, look: Look) -> Iterator[News]:
        """Yield the updates of a look that are new to this subscriber, and advance its point."""
        look = narrowed(look, self._kind, self.point.base)
        fresh = [each for each in look.changes if each.rev > self.point.rev]
        known = [
            each for each in look.changes if each.rev <= self.point.rev and each.became == "task.updated"
        ]
        for each, following in zip_longest(fresh, fresh[1:]):
            before = str(self.point)
            *first, last = self._became(each)
            if following is None:
                self._reach(look)
            elif following.rev > each.rev:
                self.point = replace(self.point, rev=each.rev)
            yield from (News(before, kind, each.body) for kind in first)
            yield News(str(self.point), last, each.body)
        self._reach(look)
        yield from self._moved(look, [*known, *look.moved])

    def _reach(self, look: Look) -> None:
        """Advance the point to a look's revision, after its last piece also the base: all tasks are known."""
        rev = max(self.point.rev, look.point.rev)
        self.point = replace(self.point, rev=rev, base=self.point.base if look.more else rev)
        if not look.more:
            self._created.clear()

    def _became(self, change: Change) -> tuple[str, ...]:
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

    def _moved(self, look: Look, moved: list[Change | Moved]) -> Iterator[News]:
        """Yield progress, also of tasks whose rows were known: progress is not in their rows."""
        if look.point.level <= self.point.level:  # the subscriber has read newer progress
            return
        for each, following in zip_longest(moved, moved[1:]):
            if following is None:
                self.point = replace(self.point, level=look.point.level)
            yield News(str(self.point), "task.updated", each.body)
        self.point = replace(self.point, level=look.point.level)
