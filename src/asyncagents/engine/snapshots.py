"""What the files of a project were like at a moment: taken before and after calls, compared, put back."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from msgspec import Struct

from asyncagents.domain.session import FileDiff


class PutBack(Struct, frozen=True):
    """A file is to be as it was in a snapshot; if it was not there, it is removed."""

    file: str
    """Absolute."""
    to: str
    was: str | None = None
    """It is removed only if it is as it was in this snapshot; None: whatever it is."""


class Snapshots(Protocol):
    """Of one project. What is said to be raised is `Unavailable`, with the reason for people."""

    async def take(self) -> str:
        """All files as they are now, under a name that their content gives; cheap if little has changed."""
        ...

    async def changed(self, before: str, after: str) -> tuple[str, ...]:
        """The files that differ, absolute."""
        ...

    async def diffs(self, before: str, after: str) -> tuple[FileDiff, ...]: ...

    async def text(self, before: str, after: str) -> str:
        """The difference as one patch, for people."""
        ...

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Nobody else, in whatever process, undoes or redoes anything in this project meanwhile."""
        ...

    async def put_back(self, files: Sequence[PutBack]) -> tuple[str, ...]:
        """Returns what was left as it is, and why. Doing it again changes nothing more."""
        ...


class NoSnapshots(Struct, frozen=True):
    """They are not taken here."""

    why: str


UNKEPT = NoSnapshots("no snapshots of files are taken here")
