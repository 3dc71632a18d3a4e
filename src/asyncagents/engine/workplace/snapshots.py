"""Snapshots of a project's files: taken before and after calls, compared, restored."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from asyncagents.domain.conversation.session import FileDiff


class FileToRestore(Struct, frozen=True):
    """A file to restore from a snapshot; if the snapshot does not have it, it is removed."""

    file: str
    """Absolute path."""
    to: str
    was: str | None = None
    """Remove the file only if it equals this snapshot's; None: in any case."""


class Snapshots(Protocol):
    """Snapshots of one project. The methods raise `Unavailable`, with a reason for people."""

    async def take(self) -> str:
        """Take a snapshot of all files; return its name, a content hash. Cheap if little has changed."""
        ...

    async def changed_files(self, before: str, after: str) -> tuple[str, ...]:
        """Return the absolute paths of files that differ."""
        ...

    async def diffs(self, before: str, after: str) -> tuple[FileDiff, ...]: ...

    async def patch_text(self, before: str, after: str) -> str:
        """Return the difference as one patch, for people."""
        ...

    def lock(self) -> AbstractAsyncContextManager[None]:
        """Lock the project against undo and redo by other callers and processes."""
        ...

    async def restore_files(self, files: Sequence[FileToRestore]) -> tuple[str, ...]:
        """Restore files; return those left as they are, with reasons. Idempotent."""
        ...


class NoSnapshots(Struct, frozen=True):
    """The project has no snapshots."""

    why: str


NO_SNAPSHOTS = NoSnapshots("no snapshots of files are taken here")
