"""Sources of a prompt in a directory: commands, files, a shell, agents."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from asyncagents.config.markdown.commands import FoundCommands
from asyncagents.domain.agent.agent import Agent
from asyncagents.domain.agent.command import ShellPiece
from asyncagents.domain.agent.permission import Action
from asyncagents.domain.id import SessionId
from asyncagents.engine.tool import Ask

DIRECTORY_MIME = "application/x-directory"

Judge: TypeAlias = Callable[[Ask], Action]
"""Decides by the rules whether a file may be read."""


class FileRequest(Struct, frozen=True, kw_only=True):
    """A file to read: its path, relative to `directory`, and the first and last line, from 1."""

    path: str
    directory: str
    session_id: SessionId
    """The session that counts as having read it, and so may change it."""
    first: int | None = None
    last: int | None = None


class AttachedFile(Struct, frozen=True, kw_only=True):
    """A file or a directory: its text, or its content as a `data:` URL."""

    path: str
    name: str
    mime: str
    words: str | None = None
    data: str | None = None


class NoSuchFile(Struct, frozen=True):
    why: str


class ForbiddenFile(Struct, frozen=True):
    why: str
    outside: bool
    """Whether the file is outside the project."""


class UnreadableFile(Struct, frozen=True):
    """The file exists, and no model can read it."""

    why: str


FileLookup: TypeAlias = AttachedFile | NoSuchFile | ForbiddenFile | UnreadableFile


class PromptSources(Protocol):
    @property
    def commands(self) -> FoundCommands: ...

    def agent(self, name: str) -> Agent | None: ...

    async def look_up(self, request: FileRequest, judge: Judge, *, meant: bool) -> FileLookup:
        """Look up a file. `meant`: a person named this file, so that a rule "ask" allows it."""
        ...

    async def run_shell(self, piece: ShellPiece, directory: str) -> str:
        """Return what a shell command printed, within limits; a failure is noted at the end."""
        ...
