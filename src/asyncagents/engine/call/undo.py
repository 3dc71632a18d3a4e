"""Undo and redo: messages from a point on, and the changes to files since."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TypeAlias

from msgspec.structs import replace

from asyncagents.domain.conversation.file_changes import UndoDiffs, UndoPlan
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.session import FileDiff, Revert, Session
from asyncagents.domain.id import AFTER_ALL_IDS, MessageId, PartId, SessionId
from asyncagents.engine.workplace.snapshots import FileToRestore, NoSnapshots, Snapshots
from asyncagents.engine.workplace.workplace import Workplaces, workplace_at
from asyncagents.errors import NotFound, Unavailable
from asyncagents.store.store import Store

STOP_SECONDS = 5.0
MAX_NOTES = 20
_log = logging.getLogger(__name__)

WaitUntilStopped: TypeAlias = Callable[[tuple[SessionId, ...], float], Awaitable[bool]]
"""Waits until no process runs these sessions, for so many seconds."""


class Reverts:
    def __init__(self, *, store: Store, workplaces: Workplaces) -> None:
        self._store = store
        self._rows = store.reverts
        self._workplaces = workplaces
        self.wait_until_stopped: WaitUntilStopped = _do_not_wait
        self._locks: dict[SessionId, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def _lock_session(self, session_id: SessionId) -> AsyncIterator[None]:
        """Lock a session and its project: its files are restored by one caller at a time."""
        lock, users = self._locks.get(session_id, (asyncio.Lock(), 0))
        self._locks[session_id] = lock, users + 1
        try:
            async with lock, await self._lock_project(session_id):
                yield
        finally:
            lock, users = self._locks.pop(session_id)
            if users > 1:
                self._locks[session_id] = lock, users - 1

    async def _lock_project(self, session_id: SessionId) -> AbstractAsyncContextManager[None]:
        """Return the project's lock against other processes that restore the same files."""
        directory = (await self._store.session(session_id)).directory
        workplace = await workplace_at(self._workplaces, directory)
        return nullcontext() if isinstance(workplace.snapshots, NoSnapshots) else workplace.snapshots.lock()

    async def revert(
        self,
        session_id: SessionId,
        message_id: MessageId,
        part_id: PartId | None = None,
    ) -> Session:
        """Undo from a message on. The mark is stored first: a repeat after a crash ends the same way."""
        async with self._lock_session(session_id):
            undoing = await self._rows.plan_undo(session_id, message_id, part_id)
            snapshot, why_not = await self._snapshot_before_undo(undoing.info)
            if undoing.info.revert is not None:
                await self._redo_files(session_id)  # as if nothing had been undone
            point = undoing.point
            wanted = Revert(message_id=point.message_id, part_id=point.part_id, snapshot=snapshot)
            marked = await self._rows.mark_undone(session_id, wanted, wakes=undoing.wakes)
            await self.wait_until_stopped(marked.stopping, STOP_SECONDS)
            if snapshot is None:
                return await self._rows.record_restored_files(session_id, replace(wanted, note=why_not), None)
            # stopped runs have stored what they did to files
            return await self._restore_files(await self._rows.current_undo(session_id) or undoing, wanted)

    async def _snapshot_before_undo(self, info: Session) -> tuple[str | None, str | None]:
        """Return the snapshot of the files before the undo, or why there is none."""
        if info.revert is not None and info.revert.snapshot is not None:
            return info.revert.snapshot, None
        workplace = await workplace_at(self._workplaces, info.directory)
        if isinstance(workplace.snapshots, NoSnapshots):
            return None, f"Files are as they were: {workplace.snapshots.why}."
        try:
            return await workplace.snapshots.take(), None
        except Unavailable as error:
            return None, f"Files are as they were: {error}."

    async def _restore_files(self, undoing: UndoPlan, revert: Revert) -> Session:
        """Restore each file as it was before the first undone step that changed it."""
        assert revert.snapshot is not None
        snapshots = await self._require_snapshots(undoing.info)
        now = revert.snapshot  # a file that is not in it could not be restored by a redo, and stays
        left = await snapshots.restore_files(
            [FileToRestore(file, to, now) for file, to in _files_to_restore(undoing).items()]
        )
        after = await snapshots.take()
        text = await snapshots.patch_text(revert.snapshot, after)
        done = replace(revert, diff=text, note=_restore_note(left))
        undone = await self._changed_files(undoing.info, snapshots, first=undoing.point.message_id)
        rest = await self._changed_files(undoing.info, snapshots, last=undoing.point.message_id)
        return await self._rows.record_restored_files(
            undoing.info.id, done, UndoDiffs(undone=undone, left=rest)
        )

    async def _changed_files(
        self, info: Session, snapshots: Snapshots, *, first: str = "", last: str = AFTER_ALL_IDS
    ) -> tuple[FileDiff, ...]:
        steps = await self._rows.snapshot_range(info.id, first, last)
        return () if steps is None else await snapshots.diffs(steps.before, steps.after)

    async def _require_snapshots(self, info: Session) -> Snapshots:
        workplace = await workplace_at(self._workplaces, info.directory)
        if isinstance(workplace.snapshots, NoSnapshots):
            raise Unavailable(f"files cannot be restored now: {workplace.snapshots.why}")
        return workplace.snapshots

    async def complete_revert(self, info: Session) -> None:
        """Finish restoring files that a dead process left unfinished; called before a model is asked."""
        if info.revert is None or not info.revert.is_unfinished:
            return
        session_id = info.id
        try:
            async with self._lock_session(session_id):
                undoing = await self._rows.current_undo(session_id)
                if (
                    undoing is not None
                    and undoing.info.revert is not None
                    and undoing.info.revert.is_unfinished
                ):
                    await self._restore_files(undoing, undoing.info.revert)
        except Unavailable as error:
            _log.warning("session=%s action=restore_files failed: %s", session_id, error)

    async def unrevert(self, session_id: SessionId) -> Session:
        """Redo: restore the files, then remove the mark. Runs that the undo ended stay ended."""
        async with self._lock_session(session_id):
            await self._redo_files(session_id)
            return await self._rows.unmark(session_id, await self._all_changed_files(session_id))

    async def _all_changed_files(self, session_id: SessionId) -> tuple[FileDiff, ...] | None:
        """Return all files that a session changed, with nothing undone; None if unavailable."""
        info = await self._store.session(session_id)
        try:
            return await self._changed_files(info, await self._require_snapshots(info))
        except Unavailable:
            return None

    async def _redo_files(self, session_id: SessionId) -> None:
        """Restore the undone changes; the mark is unfinished meanwhile, so that new input waits."""
        await self._rows.reopen(session_id)
        undoing = await self._rows.current_undo(session_id)
        revert = undoing.info.revert if undoing is not None else None
        if undoing is None or revert is None or revert.snapshot is None:
            return
        snapshots, plan = await self._require_snapshots(undoing.info), _files_to_restore(undoing)
        await snapshots.restore_files(
            [FileToRestore(file, revert.snapshot, was) for file, was in plan.items()]
        )

    async def diff(self, session_id: SessionId, message_id: MessageId | None = None) -> tuple[FileDiff, ...]:
        """Return the files that a session changed, or that the turn of one prompt changed."""
        info = await self._store.session(session_id)
        if message_id is not None:
            asked = (await self._store.message(message_id)).info
            if asked.session_id != session_id:
                raise NotFound("message", message_id)
            summary = asked.summary if isinstance(asked, UserMessage) else None
            return summary.diffs if summary is not None else ()
        last = info.revert.message_id if info.revert is not None else AFTER_ALL_IDS
        workplace = await workplace_at(self._workplaces, info.directory)
        if isinstance(workplace.snapshots, NoSnapshots):
            return ()
        return await self._changed_files(info, workplace.snapshots, last=last)


async def _do_not_wait(sessions: tuple[SessionId, ...], seconds: float) -> bool:
    return True


def _files_to_restore(undoing: UndoPlan) -> dict[str, str]:
    """Return the oldest snapshot of each changed file."""
    wanted: dict[str, str] = {}
    for patch in undoing.patches:
        for file in patch.files:
            wanted.setdefault(file, patch.hash)
    return wanted


def _restore_note(left: tuple[str, ...]) -> str | None:
    if not left:
        return None
    more = f" And {len(left) - MAX_NOTES} more." if len(left) > MAX_NOTES else ""
    return f"Not put back: {'; '.join(left[:MAX_NOTES])}.{more}"
