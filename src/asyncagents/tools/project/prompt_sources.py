"""Files, agents and shell output of a project that prompts include."""

import os
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mimetypes import guess_type
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.markdown.commands import FoundCommands
from asyncagents.domain.agent.agent import Agent
from asyncagents.domain.agent.command import ShellPiece
from asyncagents.domain.agent.permission import Action
from asyncagents.domain.call.result_file import mime_of
from asyncagents.domain.text import replace_surrogates
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.agents import Agents
from asyncagents.engine.workplace.prompt_sources import (
    DIRECTORY_MIME,
    AttachedFile,
    FileLookup,
    FileRequest,
    ForbiddenFile,
    Judge,
    NoSuchFile,
    UnreadableFile,
)
from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files, MissingFile
from asyncagents.tools.file.path import OutsidePath, ResolvedPath, read_asks
from asyncagents.tools.file.text import BOM
from asyncagents.tools.process.processes import ProcessResult
from asyncagents.tools.project.toolbox import ProjectIO

MOST_BYTES = 10 * 1024 * 1024
MOST_CHARS = 100_000
"""Characters shown of a file that is mentioned, not attached."""
MOST_NAMES = 1_000
SHELL_SECONDS = 60.0
LONGEST_ARGUMENT = 100 * 1024
"""Linux limits one argument of a program to 128 KiB."""


class ProjectPromptSources(Struct, frozen=True, kw_only=True):
    io: ProjectIO
    commands: FoundCommands
    agents: Agents
    scratch: Path
    """Folder for scripts that are too long for an argument."""

    def agent(self, name: str) -> Agent | None:
        found = self.agents.find(name)
        return None if found is None or found.hidden else found

    async def look_up(self, request: FileRequest, judge: Judge, *, meant: bool) -> FileLookup:
        return await self.io.files.threads.run(self._find_file, request, judge, meant)

    def _find_file(self, request: FileRequest, judge: Judge, meant: bool) -> FileLookup:
        files = self.io.files
        try:
            place = files.resolve(request.path, request.directory)
            folder = files.is_folder(place)
            asks = read_asks("read", place, folder=folder, guard=files.guards([place])[0])
            refused = _find_refusal(place, judge, asks, meant=meant)
            if refused is not None:
                return refused
            shown = _attach_folder(files, place) if folder else self._attach_file(place, request)
            return shown if meant else _cut_text(shown)
        except MissingFile as error:
            return NoSuchFile(str(error))
        except ToolError as error:
            return UnreadableFile(str(error))

    def _attach_file(self, place: ResolvedPath, request: FileRequest) -> AttachedFile | UnreadableFile:
        content = self.io.files.read(place)
        shown = _attach_content(place, content.data, request)
        if isinstance(shown, AttachedFile) and shown.words is not None:
            self.io.read_log.record(request.session_id, place, content.fingerprint)
        return shown

    async def run_shell(self, piece: ShellPiece, directory: str) -> str:
        with _shell_arguments(piece.script, self.scratch) as words:
            result = await self.io.processes.run(words, cwd=Path(directory), timeout=SHELL_SECONDS)
        return _shell_text(piece, result)


def _find_refusal(
    place: ResolvedPath, judge: Judge, asks: Sequence[Ask], *, meant: bool
) -> ForbiddenFile | None:
    """Return why the rules for `read` refuse the path, or None; `meant` accepts rules that ask."""
    accepted: tuple[Action, ...] = ("allow", "ask") if meant else ("allow",)
    for ask in asks:
        action = judge(ask)
        if action not in accepted:
            says = "deny it" if action == "deny" else "would ask first"
            why = f"{place.name} cannot be attached: the rules for {ask.permission} {says}"
            return ForbiddenFile(why, isinstance(place, OutsidePath))
    return None


def _attach_folder(files: Files, place: ResolvedPath) -> AttachedFile:
    entries = files.list_folder(place)
    lines = [f"{entry.name}{'/' if entry.folder else '@' if entry.link else ''}" for entry in entries]
    more = [f"(and {len(lines) - MOST_NAMES} more)"] if len(lines) > MOST_NAMES else []
    words = replace_surrogates("\n".join([*lines[:MOST_NAMES], *more]) or "(the folder is empty)")
    return AttachedFile(
        path=place.path, name=replace_surrogates(place.name), mime=DIRECTORY_MIME, words=words
    )


def _attach_content(place: ResolvedPath, data: bytes, request: FileRequest) -> AttachedFile | UnreadableFile:
    if len(data) > MOST_BYTES:
        return UnreadableFile(f"{place.name} is larger than 10 MiB: attach a part of it, or make it smaller")
    mime = detect_mime(place.name, data)
    if mime is None:
        return UnreadableFile(
            f"{place.name} is neither text nor an image nor a PDF: if it is text, save it as UTF-8"
        )
    if mime == "text/plain":
        return _attach_text(place, data.decode().removeprefix(BOM), request)
    url = f"data:{mime};base64,{b64encode(data).decode()}"
    return AttachedFile(path=place.path, name=place.name, mime=mime, data=url)


def detect_mime(name: str, data: bytes) -> str | None:
    """Detect the MIME type by content, else an image by its name; None: unknown."""
    known = mime_of(data)
    if known is not None:
        return known
    if _is_text(data):
        return "text/plain"
    by_name = guess_type(name)[0] or ""
    return by_name if by_name.startswith("image/") else None


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def _attach_text(place: ResolvedPath, text: str, request: FileRequest) -> AttachedFile | UnreadableFile:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    first = max(1, request.first or 1)
    last = len(lines) if request.last is None else request.last
    if first > max(1, len(lines)) or last < first - 1:
        return UnreadableFile(f"{place.name} has {len(lines)} lines: there are none from {first} to {last}")
    words = "\n".join(lines[first - 1 : last])
    return AttachedFile(path=place.path, name=place.name, mime="text/plain", words=words or "(empty)")


def _cut_text(shown: AttachedFile | UnreadableFile) -> AttachedFile | UnreadableFile:
    if isinstance(shown, UnreadableFile) or len(shown.words or "") <= MOST_CHARS:
        return shown
    note = f"(Cut after {MOST_CHARS} characters: the tool read has the rest.)"
    return replace(shown, words=f"{(shown.words or '')[:MOST_CHARS]}\n{note}")


@contextmanager
def _shell_arguments(script: str, scratch: Path) -> Iterator[tuple[str, ...]]:
    """Yield the arguments that run a script: inline or, if it is too long, by a private temporary file."""
    if len(script.encode("utf-8", "replace")) <= LONGEST_ARGUMENT:
        yield "bash", "-c", script
        return
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, path = tempfile.mkstemp(prefix="script-", suffix=".sh", dir=scratch)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(script.encode("utf-8", "replace"))
        yield "bash", path
    finally:
        os.unlink(path)


def _shell_text(piece: ShellPiece, result: ProcessResult) -> str:
    output = result.output.rstrip("\n")
    if result.timed_out:
        note = f"[The command `{piece.command}` was ended after {SHELL_SECONDS:g} s.]"
    elif result.exit_code:
        note = f"[The command `{piece.command}` failed with exit code {result.exit_code}.]"
    else:
        return output
    return f"{output}\n{note}" if output else note
