"""The files of a simulated project, and snapshots of them: they outlive every process, as a disk does."""

import asyncio
import hashlib
import json
import random
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from asyncagents.domain.conversation.session import FileDiff
from asyncagents.engine.workplace.snapshots import FileToRestore
from asyncagents.testing.process import Process

Tree = dict[str, str]


class Disk:
    def __init__(self) -> None:
        self.files: Tree = {}
        self.kept: dict[str, Tree] = {}
        self.undoing = asyncio.Lock()
        """It is free when its holder dies."""

    def keep(self) -> str:
        name = hashlib.sha1(
            json.dumps(sorted(self.files.items())).encode(), usedforsecurity=False
        ).hexdigest()
        self.kept[name] = dict(self.files)
        return name

    def of(self, tree: Tree, session: str) -> Tree:
        return {name: text for name, text in tree.items() if name.startswith(f"{session}/")}


class DiskSnapshots:
    """As one process sees them: it may die between any two files."""

    def __init__(self, disk: Disk, process: Process, seed: int) -> None:
        self._disk = disk
        self._process = process
        self._rng = random.Random(f"disk:{seed}:{process.number}")

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.choice([0, 0.05, 0.4]) * self._rng.random())
        if self._process.dead:
            raise asyncio.CancelledError

    async def take(self) -> str:
        await self._pause()
        return self._disk.keep()

    async def changed_files(self, before: str, after: str) -> tuple[str, ...]:
        one, two = self._disk.kept[before], self._disk.kept[after]
        return tuple(sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name)))

    async def diffs(self, before: str, after: str) -> tuple[FileDiff, ...]:
        return tuple(
            FileDiff(file=name, additions=1, deletions=1) for name in await self.changed_files(before, after)
        )

    async def patch_text(self, before: str, after: str) -> str:
        return " ".join(await self.changed_files(before, after))

    def lock(self) -> AbstractAsyncContextManager[None]:
        return self._disk.undoing

    async def restore_files(self, files: Sequence[FileToRestore]) -> tuple[str, ...]:
        for each in files:
            await self._pause()
            text = self._disk.kept[each.to].get(each.file)
            if text is not None:
                self._disk.files[each.file] = text
            elif each.was is None or self._disk.files.get(each.file) == self._disk.kept[each.was].get(
                each.file
            ):
                self._disk.files.pop(each.file, None)
        return ()
