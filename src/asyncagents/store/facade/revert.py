"""Store facade for file snapshots of steps and for undo."""

from asyncagents.domain.control import Lease
from asyncagents.domain.conversation.session import FileDiff, Revert, Session
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.store.verb import file_changes, revert
from asyncagents.store.verb.file_changes import Changed, Stretch, Told
from asyncagents.store.verb.revert import Files, Marked, Undoing
from asyncagents.store.verb_runner import Door


class RevertStore(Door):
    async def keep_before(self, lease: Lease, message_id: MessageId, snapshot: str) -> None:
        """Store the snapshot taken before the calls of a step run."""
        await self._write(lambda tx: file_changes.keep_before(tx, lease, message_id, snapshot))

    async def keep_after(self, lease: Lease, changed: Changed) -> None:
        """Store the snapshot taken after the calls of a step, once per step."""
        await self._write(lambda tx: file_changes.keep_after(tx, lease, changed))

    async def keep_summary(self, lease: Lease, told: Told) -> None:
        """Store the file changes of a turn and of the session so far."""
        await self._write(lambda tx: file_changes.keep_summary(tx, lease, told))

    async def stretch(
        self, session_id: SessionId, first: str = "", last: str = file_changes.EVERY
    ) -> Stretch | None:
        """Read the snapshots before the first and after the last step of a range; None: no step has any."""
        return await self._read(lambda tx: file_changes.stretch(tx, session_id, first, last))

    async def look(
        self, session_id: SessionId, message_id: MessageId, part_id: PartId | None = None
    ) -> Undoing:
        """Read what an undo from this point would cover. Raises `SessionBusy` if there can be none now."""
        return await self._read(lambda tx: revert.look(tx, session_id, message_id, part_id))

    async def marked(self, session_id: SessionId) -> Undoing | None:
        """Read the undo that is marked now, if any."""
        return await self._read(lambda tx: revert.marked(tx, session_id))

    async def mark(self, session_id: SessionId, wanted: Revert, *, wakes: int | None = None) -> Marked:
        """Mark an undo and end what it covers, in one transaction. `wakes`: only if not woken since."""
        return await self._write(lambda tx: revert.mark(tx, session_id, wanted, wakes=wakes))

    async def files_put_back(self, session_id: SessionId, done: Revert, files: Files | None) -> Session:
        return await self._write(lambda tx: revert.files_put_back(tx, session_id, done, files))

    async def reopen(self, session_id: SessionId) -> Session:
        """Mark the undo as unfinished before files change again; input admitted meanwhile waits for them."""
        return await self._write(lambda tx: revert.reopen(tx, session_id))

    async def clear(self, lease: Lease) -> None:
        """Delete what is undone, before a model is asked."""
        await self._write(lambda tx: revert.clear(tx, lease))

    async def unmark(self, session_id: SessionId, diffs: tuple[FileDiff, ...] | None = None) -> Session:
        return await self._write(lambda tx: revert.unmark(tx, session_id, diffs))
