"""Reads what changed on a status board after a cursor: the current state of tasks, not each change."""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.board import KindFilter, TaskRemoved
from asyncagents.domain.task.task import TaskKind
from asyncagents.errors import InvalidInput
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.board import QueuePlaces, show_task
from asyncagents.store.verb.task import decode_task

WINDOW = 500
FAR = 2_000
"""Revisions. For a larger range it is cheaper to read every live task than all changed rows."""

BoardEventType: TypeAlias = Literal[
    "task.updated", "task.completed", "task.error", "task.cancelled", "task.removed"
]


class BoardCursor(Struct, frozen=True, kw_only=True):
    """The position of a board reader; `str()` gives its cursor.

    The reader has read changed rows up to `rev` and the progress of live tasks up to `level`. A reader that
    reads in pieces began at `base` and knows the tasks that existed then.
    """

    epoch: str
    rev: int
    level: int
    base: int

    def __str__(self) -> str:
        behind = "" if self.level == self.base == self.rev else f"-{self.level}-{self.base}"
        return f"{self.epoch}-0-{self.rev}{behind}"


def parse_board_cursor(text: str) -> BoardCursor:
    """Parse the cursor of a snapshot or of a board event. Raises `InvalidInput`."""
    epoch, *numbers = text.split("-")
    if len(numbers) in (2, 4) and all(
        each.isascii() and each.isdecimal() and len(each) < 19 for each in numbers
    ):
        _, rev, level, base = map(int, numbers if len(numbers) == 4 else [*numbers, *numbers[1:] * 2])
        if max(level, base) <= rev:
            return BoardCursor(epoch=epoch, rev=rev, level=level, base=base)
    raise InvalidInput(f"{text[:80]!r} is not a valid cursor; take the one that came with the last event")


class TaskChange(Struct, frozen=True, kw_only=True):
    """The current state of a changed task. `born`, `done`: the revisions of its launch and its last end.

    `turned`: the revision at which it got its kind.
    """

    task_id: SessionId
    rev: int
    born: int
    done: int
    became: BoardEventType
    body: bytes
    kind: TaskKind = "background"
    turned: int = 0


class TaskProgressed(Struct, frozen=True):
    """A live task whose child session has made progress."""

    task_id: SessionId
    body: bytes
    kind: TaskKind = "background"


class BoardChanges(Struct, frozen=True, kw_only=True):
    """Changes in the order of their revisions. `more`: read on. `reset`: read the whole board afresh."""

    point: BoardCursor
    changes: tuple[TaskChange, ...] = ()
    moved: tuple[TaskProgressed, ...] = ()
    more: bool = False
    reset: bool = False


def filter_kind(look: BoardChanges, kind: KindFilter, known: int) -> BoardChanges:
    """Keep the changes for a reader of one kind of tasks; a task that changed to that kind counts as new.

    A task that changed to the other kind is removed. `known`: the revision the reader has read up to.
    """
    if kind == "all":
        return look
    changes = []
    for each in look.changes:
        if each.became == "task.removed":
            changes.append(each)
        elif each.kind == kind:
            changes.append(replace(each, born=max(each.born, each.turned)))
        elif each.turned > max(each.born, known):
            changes.append(_removed_task(each.rev, each.task_id))
    moved = tuple(each for each in look.moved if each.kind == kind)
    return replace(look, changes=tuple(changes), moved=moved)


async def changes_since(tx: Tx, after: BoardCursor, *, progress: bool, window: int = WINDOW) -> BoardChanges:
    """Read a bounded piece of what changed after a cursor; with `progress` the last has live tasks, too."""
    row = await tx.one("revision")
    assert row is not None
    now, epoch, oldest = row
    if after.epoch != epoch or 0 < after.rev < oldest or after.rev > now:
        return BoardChanges(point=BoardCursor(epoch=epoch, rev=now, level=now, base=now), reset=True)
    upto = await _window_end(tx, after.rev, now, window)
    places = QueuePlaces()
    changes = [await _change(tx, row, places) for row in await tx.all("board_changed", after.rev, upto)]
    changes += [_removed_task(*row) for row in await tx.all("board_removed", after.rev, upto)]
    changes.sort(key=lambda each: (each.rev, each.became != "task.removed", each.task_id))
    more = upto < now
    at = BoardCursor(epoch=epoch, rev=upto, level=after.level, base=after.base if more else now)
    if more or not progress:
        return BoardChanges(point=at, changes=tuple(changes), more=more)
    told = {each.task_id for each in changes}
    moved = await _progressed_tasks(tx, (after.level, now), told, places)
    return BoardChanges(point=replace(at, level=now), changes=tuple(changes), moved=moved)


async def _window_end(tx: Tx, after: int, now: int, window: int) -> int:
    """The revision at which a piece has `window` changes."""
    full = [await tx.one(each, after, now, window - 1) for each in ("board_reach", "board_reach_removed")]
    return min((row[0] for row in full if row is not None), default=now)


async def _change(tx: Tx, row: Row, places: QueuePlaces) -> TaskChange:
    rev, born, done, turned, task_id, *raw = row
    try:
        task = decode_task(tuple(raw))
    except Unreadable:  # it cannot be shown any more
        return _removed_task(rev, task_id)
    return TaskChange(
        task_id=task.id,
        rev=rev,
        born=born,
        done=done,
        became=_event_type(task.status),
        body=encode(await show_task(tx, task, places)),
        kind=task.kind,
        turned=turned,
    )


def _event_type(status: str) -> BoardEventType:
    match status:
        case "completed":
            return "task.completed"
        case "error":
            return "task.error"
        case "cancelled":
            return "task.cancelled"
        case _:
            return "task.updated"


def _removed_task(rev: int, task_id: str) -> TaskChange:
    gone = SessionId(task_id)
    body = encode(TaskRemoved(session_id=gone))
    return TaskChange(task_id=gone, rev=rev, born=0, done=rev, became="task.removed", body=body)


async def _progressed_tasks(
    tx: Tx, since: tuple[int, int], told: set[SessionId], places: QueuePlaces
) -> tuple[TaskProgressed, ...]:
    """Read live tasks whose rows did not change but whose progress or place in a queue may have."""
    after, now = since
    if after == now:
        return ()
    if now - after > FAR:
        rows = await tx.all("board_moved_since", after)
    else:
        rows = await tx.all("board_moved", after, now)
    found = []
    for row in rows:
        try:
            task = decode_task(row)
        except Unreadable:
            continue
        if task.id not in told:
            found.append(TaskProgressed(task.id, encode(await show_task(tx, task, places)), task.kind))
    return tuple(found)
