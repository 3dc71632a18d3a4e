"""Store facade for file snapshots of steps and for undo."""

from asyncagents.domain.control import Claim
from asyncagents.domain.conversation.session import FileDiff, Revert, Session
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.store.verb import file_changes, revert
from asyncagents.store.verb.file_changes import SnapshotRange, StepFileChanges, TurnFileChanges
from asyncagents.store.verb.revert import UndoDiffs, UndoMark, UndoPlan
from asyncagents.store.verb_runner import VerbRunner


class RevertStore(VerbRunner):
    async def save_snapshot_before(self, lease: Claim, message_id: MessageId, snapshot: str) -> None:
        """Store the snapshot taken before the calls of a step run."""
        await self._write(lambda tx: file_changes.save_snapshot_before(tx, lease, message_id, snapshot))

    async def save_snapshot_after(self, lease: Claim, changed: StepFileChanges) -> None:
        """Store the snapshot taken after the calls of a step, once per step."""
        await self._write(lambda tx: file_changes.save_snapshot_after(tx, lease, changed))

    async def save_turn_summary(self, lease: Claim, told: TurnFileChanges) -> None:
        """Store the file changes of a turn and of the session so far."""
        await self._write(lambda tx: file_changes.save_turn_summary(tx, lease, told))

    async def snapshot_range(
        self, session_id: SessionId, first: str = "", last: str = file_changes.AFTER_ALL_IDS
    ) -> SnapshotRange | None:
        """Read the snapshots before the first and after the last step of a range; None: no step has any."""
        return await self._read(lambda tx: file_changes.snapshot_range(tx, session_id, first, last))

    async def plan_undo(
        self, session_id: SessionId, message_id: MessageId, part_id: PartId | None = None
    ) -> UndoPlan:
        """Read what an undo from this point would cover. Raises `SessionBusy` if there can be none now."""
        return await self._read(lambda tx: revert.plan_undo(tx, session_id, message_id, part_id))

    async def current_undo(self, session_id: SessionId) -> UndoPlan | None:
        """Read the undo that is marked now, if any."""
        return await self._read(lambda tx: revert.current_undo(tx, session_id))

    async def mark_undone(
        self, session_id: SessionId, wanted: Revert, *, wakes: int | None = None
    ) -> UndoMark:
        """Mark an undo and end what it covers, in one transaction. `wakes`: only if not woken since."""
        return await self._write(lambda tx: revert.mark_undone(tx, session_id, wanted, wakes=wakes))

    async def record_restored_files(
        self, session_id: SessionId, done: Revert, files: UndoDiffs | None
    ) -> Session:
        return await self._write(lambda tx: revert.record_restored_files(tx, session_id, done, files))

    async def reopen(self, session_id: SessionId) -> Session:
        """Mark the undo as unfinished before files change again; input admitted meanwhile waits for them."""
        return await self._write(lambda tx: revert.reopen(tx, session_id))

    async def drop_undone(self, lease: Claim) -> None:
        """Delete what is undone, before a model is asked."""
        await self._write(lambda tx: revert.drop_undone_messages(tx, lease))

    async def unmark(self, session_id: SessionId, diffs: tuple[FileDiff, ...] | None = None) -> Session:
        return await self._write(lambda tx: revert.unmark(tx, session_id, diffs))
