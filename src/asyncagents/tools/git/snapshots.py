"""Take and compare snapshots of a project's files in the shadow repository; git runs in threads."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from asyncagents.domain.conversation.session import FileDiff, project_id
from asyncagents.domain.port import Clock
from asyncagents.engine.workplace.snapshots import NoSnapshots, PutBack, Snapshots
from asyncagents.errors import Unavailable
from asyncagents.tools.file.thread_pool import Threads
from asyncagents.tools.git.restore import PuttingBack
from asyncagents.tools.git.shadow_repository import DAY_SECONDS, Shadow
from asyncagents.tools.git.snapshot_diff import changed, diff_text, file_diffs

T = TypeVar("T")
PAUSE_MS = 1_800_000
"""How long no snapshot is tried after one failed: a git that hangs once hangs again."""
TRIES, BETWEEN_TRIES = 600, 0.05
_log = logging.getLogger(__name__)

SWITCHED_OFF = "the configuration says `snapshot: false`, so no snapshots of files are taken"
NO_REPOSITORY = "this is not a git repository, so no snapshots of files are taken"


class GitSnapshots:
    """The snapshots of one project, shared by all its sessions."""

    def __init__(self, shadow: Shadow, clock: Clock) -> None:
        self.threads = Threads()
        self._shadow = shadow
        self._clock = clock
        self._alone = asyncio.Lock()
        self._next: asyncio.Future[str | None] | None = None
        """The next snapshot; its result is None if the caller that was to take it was cancelled."""
        self._not_before = 0
        self._why = ""
        self._swept = 0

    async def take(self) -> str:
        """Take a snapshot; callers that come while one is taken share the next. Raises `Unavailable`."""
        if self._clock.now() < self._not_before:
            raise Unavailable(self._why)
        while self._next is not None:
            if (shared := await asyncio.shield(self._next)) is not None:
                return shared
        mine = self._next = asyncio.get_running_loop().create_future()
        try:
            async with self._alone:
                self._next = None  # a later caller may need a newer snapshot
                taken = await self.threads.run(self._take)
            mine.set_result(taken)
            self._sweep_sometimes()
        except BaseException as error:
            self._next = None if self._next is mine else self._next
            self._pass_on(mine, error)
            raise
        return taken

    def _pass_on(self, mine: asyncio.Future[str | None], error: BaseException) -> None:
        """Fail the callers that share the snapshot; if only its taker was cancelled, let another take it."""
        if isinstance(error, asyncio.CancelledError):
            mine.set_result(None)
            return
        mine.set_exception(error)
        mine.exception()  # retrieved, since perhaps no caller shares it
        self._pause(error)

    def _take(self) -> str:
        with self._shadow.alone():
            return self._shadow.take()

    def _sweep_sometimes(self) -> None:
        """Delete old snapshots once a day, without a lock: young ones are never touched."""
        now = self._clock.now()
        if now - self._swept > DAY_SECONDS * 1000:
            self._swept = now
            asyncio.get_running_loop().run_in_executor(self.threads, self._forget_old)

    def _forget_old(self) -> None:
        try:
            self._shadow.forget_old()
        except (Unavailable, OSError) as error:
            _log.warning("action=delete_old_snapshots root=%s: %s", self._shadow.root, error)

    def _pause(self, error: BaseException) -> None:
        if isinstance(error, Unavailable):
            self._not_before, self._why = self._clock.now() + PAUSE_MS, str(error)
            _log.warning("action=pause_snapshots root=%s: %s", self._shadow.root, error)

    async def changed(self, before: str, after: str) -> tuple[str, ...]:
        if before == after:
            return ()
        found = await self._do(lambda: changed(self._shadow, before, after))
        return tuple(str(self._shadow.root / each.name) for each in found)

    async def diffs(self, before: str, after: str) -> tuple[FileDiff, ...]:
        """Return the file diffs; none if a snapshot is gone: expired, or taken on another machine."""
        if before == after:
            return ()
        try:
            return await self._read(file_diffs, before, after)
        except Unavailable:
            if await self._do(lambda: self._shadow.has(before) and self._shadow.has(after)):
                raise
            return ()

    async def text(self, before: str, after: str) -> str:
        return "" if before == after else await self._read(diff_text, before, after)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold the project's undo lock, which ends with the process. Raises `Unavailable` after 30 s."""
        with self._shadow.undo_lock() as try_to_take:
            for _ in range(TRIES):
                if try_to_take():
                    break
                await asyncio.sleep(BETWEEN_TRIES)
            else:
                raise Unavailable("another process is putting files back in this project: try again later")
            yield

    async def put_back(self, files: Sequence[PutBack]) -> tuple[str, ...]:
        async with self._alone:
            return await _to_its_end(self.threads, lambda: PuttingBack(self._shadow).do(files))

    async def _read(self, how: Callable[[Shadow, str, str], T], before: str, after: str) -> T:
        return await self._do(lambda: how(self._shadow, before, after))

    async def _do(self, work: Callable[[], T]) -> T:
        return await self.threads.run(work)


async def _to_its_end(threads: Threads, work: Callable[[], T]) -> T:
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
        shadow = Shadow(folder / project_id(os.fsdecode(root)), root, variables)
    except Unavailable as error:
        return NoSnapshots(str(error))
    return GitSnapshots(shadow, clock)
