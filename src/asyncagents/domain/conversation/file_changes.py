"""File changes of steps and turns, and undo, which reverts them."""

from msgspec import Struct

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.part import PatchPart, StepFinishPart, StepStartPart
from asyncagents.domain.conversation.session import FileDiff, Session
from asyncagents.domain.id import MessageId, PartId, SessionId


class SnapshotRange(Struct, frozen=True):
    """The snapshots before the first and after the last step of a range of messages."""

    before: str
    after: str


def unfinished_snapshot(step: MessageWithParts) -> str | None:
    """The snapshot taken before the calls of a step, if none was taken after them."""
    starts = [part.snapshot for part in step.parts if isinstance(part, StepStartPart)]
    ends = [part.snapshot for part in step.parts if isinstance(part, StepFinishPart)]
    return starts[0] if starts and ends and not any(ends) else None


class StepFileChanges(Struct, frozen=True, kw_only=True):
    """The file changes of the calls of one step."""

    message_id: MessageId
    before: str
    after: str
    files: tuple[str, ...]
    part_id: PartId


class TurnFileChanges(Struct, frozen=True, kw_only=True):
    """The file changes of a turn, and of the session so far."""

    asked_id: MessageId
    diffs: tuple[FileDiff, ...]
    total: tuple[FileDiff, ...]


class UndoPoint(Struct, frozen=True):
    """The point from which on messages are undone. `sort_id`: that of the message."""

    message_id: MessageId
    sort_id: str
    part_id: PartId | None = None

    def cuts(self, message_id: str, part_id: str | None) -> bool:
        """Whether a part is undone, given that its message is this one or a later one."""
        if message_id != self.message_id or self.part_id is None:
            return True
        return part_id is not None and part_id >= self.part_id


class UndoPlan(Struct, frozen=True):
    """What an undo covers."""

    info: Session
    point: UndoPoint
    patches: tuple[PatchPart, ...]
    """The file patches from there on, oldest first, also of tasks launched there."""
    wakes: int
    """The session's wake count when it was read."""


class UndoDiffs(Struct, frozen=True, kw_only=True):
    """The file changes that an undo reverted, and those that are left."""

    undone: tuple[FileDiff, ...]
    left: tuple[FileDiff, ...]


class UndoMark(Struct, frozen=True):
    info: Session
    stopping: tuple[SessionId, ...] = ()
    """Sessions that were cancelled and may still be stopping."""
