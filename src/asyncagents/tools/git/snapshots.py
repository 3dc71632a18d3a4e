"""Take and compare snapshots of a project's files in the shadow repository; git runs in threads."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.session import FileDiff, project_id
from asyncagents.engine.workplace.snapshots import FileToRestore, NoSnapshots, Snapshots
from asyncagents.errors import Unavailable
from asyncagents.tools.file.thread_pool import Threads
from asyncagents.tools.git.restore import FileRestore
from asyncagents.tools.git.shadow_repository import DAY_SECONDS, ShadowRepository
from asyncagents.tools.git.snapshot_diff import changed_files, diff_text, file_diffs

T = TypeVar("T")
PAUSE_MS = 1_800_000
"""How long no snapshot is tried after one failed: a git that hangs once hangs again."""
TRIES, BETWEEN_TRIES = 600, 0.05
_log = logging.getLogger(__name__)

SWITCHED_OFF = "the configuration says `snapshot: false`, so no snapshots of files are taken"
NO_REPOSITORY = "this is not a git repository, so no snapshots of files are taken"


class GitSnapshots:
    """The snapshots of one project, shared by all its sessions."""

    def __init__(self, shadow: ShadowRepository, clock: Clock) -> None:
        self.threads = Threads()
        self._shadow = shadow
        self._clock = clock
        self._lock = asyncio.Lock()
        self._next_snapshot: asyncio.Future[str | None] | None = None
        """The next snapshot; its result is None if the caller that was to take it was cancelled."""
        self._not_before = 0
        self._pause_reason = ""
        self._swept_at = 0

    async def take(self) -> str:
        """Take a snapshot; callers that come while one is taken share the next. Raises `Unavailable`."""
        if self._clock.now() < self._not_before:
            raise Unavailable(self._pause_reason)
        while self._next_snapshot is not None:
            if (shared := await asyncio.shield(self._next_snapshot)) is not None:
                return shared
        mine = self._next_snapshot = asyncio.get_running_loop().create_future()
        try:
            async with self._lock:
                self._next_snapshot = None  # a later caller may need a newer snapshot
                taken = await self.threads.run(self._take)
            mine.set_result(taken)
            self._sweep_daily()
        except BaseException as error:
            self._next_snapshot = None if self._next_snapshot is mine else self._next_snapshot
            self._share_failure(mine, error)
            raise
        return taken

    def _share_failure(self, mine: asyncio.Future[str | None], error: BaseException) -> None:
        """Fail the callers that share the snapshot; if only its taker was cancelled, let another take it."""
        if isinstance(error, asyncio.CancelledError):
            mine.set_result(None)
            return
        mine.set_exception(error)
        mine.exception()  # retrieved, since perhaps no caller shares it
        self._pause(error)

    def _take(self) -> str:
        with self._shadow.lock():
            return self._shadow.write_tree()

    def _sweep_daily(self) -> None:
        """Delete old snapshots once a day, without a lock: young ones are never touched."""
        now = self._clock.now()
        if now - self._swept_at > DAY_SECONDS * 1000:
            self._swept_at = now
            asyncio.get_running_loop().run_in_executor(self.threads, self._delete_old)

    def _delete_old(self) -> None:
        try:
            self._shadow.delete_old()
        except (Unavailable, OSError) as error:
            _log.warning("action=delete_old_snapshots root=%s: %s", self._shadow.root, error)

    def _pause(self, error: BaseException) -> None:
        if isinstance(error, Unavailable):
            self._not_before, self._pause_reason = self._clock.now() + PAUSE_MS, str(error)
            _log.warning("action=pause_snapshots root=%s: %s", self._shadow.root, error)

    async def changed_files(self, before: str, after: str) -> tuple[str, ...]:
        if before == after:
            return ()
        found = await self._run_in_thread(lambda: changed_files(self._shadow, before, after))
        return tuple(str(self._shadow.root / each.name) for each in found)

    async def diffs(self, before: str, after: str) -> tuple[FileDiff, ...]:
        """Return the file diffs; none if a snapshot is gone: expired, or taken on another machine."""
        if before == after:
            return ()
        try:
            return await self._compare(file_diffs, before, after)
        except Unavailable:
            if await self._run_in_thread(
                lambda: self._shadow.has_tree(before) and self._shadow.has_tree(after)
            ):
                raise
            return ()

    async def patch_text(self, before: str, after: str) -> str:
        return "" if before == after else await self._compare(diff_text, before, after)

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Hold the project's undo lock, which ends with the process. Raises `Unavailable` after 30 s."""
        with self._shadow.undo_lock() as try_to_take:
            for _ in range(TRIES):
                if try_to_take():
                    break
                await asyncio.sleep(BETWEEN_TRIES)
            else:
                raise Unavailable("another process is putting files back in this project: try again later")
            yield

    async def restore_files(self, files: Sequence[FileToRestore]) -> tuple[str, ...]:
        async with self._lock:
            return await _run_to_end(self.threads, lambda: FileRestore(self._shadow).restore_files(files))

    async def _compare(self, how: Callable[[ShadowRepository, str, str], T], before: str, after: str) -> T:
        return await self._run_in_thread(lambda: how(self._shadow, before, after))

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        return await self.threads.run(work)


async def _run_to_end(threads: Threads, work: Callable[[], T]) -> T:
    """Run work in a thread and, if cancelled, still wait for it: until then its lock must be held."""
    begun = asyncio.get_running_loop().run_in_executor(threads, work)
    try:
        return await asyncio.shield(begun)
    finally:
        if not begun.done():
            await asyncio.wait((begun,))


def open_snapshots(
    folder: Path, root: Path, variables: Mapping[str, str], clock: Clock
) -> Snapshots | NoSnapshots:
    """Open the snapshots of a project. `folder`: holds the shadow repositories of all projects."""
    if not (root / ".git").exists():
        return NoSnapshots(NO_REPOSITORY)
    try:
        shadow = ShadowRepository(folder / project_id(os.fsdecode(root)), root, variables)
    except Unavailable as error:
        return NoSnapshots(str(error))
    return GitSnapshots(shadow, clock)
