"""Changes of a task board after a cursor: the current state of tasks, not each change."""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.board import KindFilter, TaskRemoved
from asyncagents.domain.task.task import TaskKind
from asyncagents.errors import InvalidInput

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


def filter_kind(board_changes: BoardChanges, kind: KindFilter, known: int) -> BoardChanges:
    """Keep the changes for a reader of one kind of tasks; a task that changed to that kind counts as new.

    A task that changed to the other kind is removed. `known`: the revision the reader has read up to.
    """
    if kind == "all":
        return board_changes
    changes = []
    for each in board_changes.changes:
        if each.became == "task.removed":
            changes.append(each)
        elif each.kind == kind:
            changes.append(replace(each, born=max(each.born, each.turned)))
        elif each.turned > max(each.born, known):
            changes.append(removed_task(each.rev, each.task_id))
    moved = tuple(each for each in board_changes.moved if each.kind == kind)
    return replace(board_changes, changes=tuple(changes), moved=moved)


def removed_task(rev: int, task_id: str) -> TaskChange:
    """Build the change by which a task leaves the board."""
    gone = SessionId(task_id)
    body = encode(TaskRemoved(session_id=gone))
    return TaskChange(task_id=gone, rev=rev, born=0, done=rev, became="task.removed", body=body)
