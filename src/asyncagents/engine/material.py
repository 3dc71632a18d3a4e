"""What a prompt may draw on where a session works: commands, files, a shell, agents."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from asyncagents.config.commands import FoundCommands
from asyncagents.domain.agent import Agent
from asyncagents.domain.command import ShellPiece
from asyncagents.domain.id import SessionId
from asyncagents.domain.permission import Action
from asyncagents.engine.tool import Ask

FOLDER = "application/x-directory"

Judge: TypeAlias = Callable[[Ask], Action]
"""What the rules say of something that would be looked at."""


class Sight(Struct, frozen=True, kw_only=True):
    """Something to look at: a path, from where it starts, and which of its lines, from 1."""

    path: str
    directory: str
    session_id: SessionId
    """Who has read it then, and so may change it."""
    first: int | None = None
    last: int | None = None


class Attached(Struct, frozen=True, kw_only=True):
    """A file or a folder: its words, or all of it as a `data:` URL."""

    path: str
    name: str
    mime: str
    words: str | None = None
    data: str | None = None


class NotThere(Struct, frozen=True):
    why: str


class NotAllowed(Struct, frozen=True):
    why: str
    outside: bool
    """Of the project."""


class Unfit(Struct, frozen=True):
    """It is there, and no model could read it."""

    why: str


Looked: TypeAlias = Attached | NotThere | NotAllowed | Unfit


class Material(Protocol):
    @property
    def commands(self) -> FoundCommands: ...

    def agent(self, name: str) -> Agent | None: ...

    async def look(self, sight: Sight, judge: Judge, *, meant: bool) -> Looked:
        """`meant`: a person named this very file, so that what the rules ask about needs no asking."""
        ...

    async def shell(self, piece: ShellPiece, directory: str) -> str:
        """What it printed, within bounds; if it failed, that is told at the end."""
        ...
