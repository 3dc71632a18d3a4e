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
from asyncagents.domain.text import whole
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.agents import Agents
from asyncagents.engine.workplace.prompt_sources import (
    FOLDER,
    Attached,
    Judge,
    Looked,
    NotAllowed,
    NotThere,
    Sight,
    Unfit,
)
from asyncagents.errors import ToolError
from asyncagents.tools.file.files import Files, Missing
from asyncagents.tools.file.path import Outside, Place, read_asks
from asyncagents.tools.file.text import BOM
from asyncagents.tools.process.processes import Ended
from asyncagents.tools.project.toolbox import Doors

LARGEST = 10 * 1024 * 1024
MOST_CHARS = 100_000
"""Characters shown of a file that is mentioned, not attached."""
MOST_NAMES = 1_000
SHELL_SECONDS = 60.0
LONGEST_ARGUMENT = 100 * 1024
"""Linux limits one argument of a program to 128 KiB."""


class ProjectMaterial(Struct, frozen=True, kw_only=True):
    doors: Doors
    commands: FoundCommands
    agents: Agents
    scratch: Path
    """Folder for scripts that are too long for an argument."""

    def agent(self, name: str) -> Agent | None:
        found = self.agents.find(name)
        return None if found is None or found.hidden else found

    async def look(self, sight: Sight, judge: Judge, *, meant: bool) -> Looked:
        return await self.doors.files.threads.run(self._look, sight, judge, meant)

    def _look(self, sight: Sight, judge: Judge, meant: bool) -> Looked:
        files = self.doors.files
        try:
            place = files.place(sight.path, sight.directory)
            folder = files.is_folder(place)
            asks = read_asks("read", place, folder=folder, guard=files.guards([place])[0])
            refused = _refused(place, judge, asks, meant=meant)
            if refused is not None:
                return refused
            shown = _folder(files, place) if folder else self._file(place, sight)
            return shown if meant else _cut(shown)
        except Missing as error:
            return NotThere(str(error))
        except ToolError as error:
            return Unfit(str(error))

    def _file(self, place: Place, sight: Sight) -> Attached | Unfit:
        content = self.doors.files.read(place)
        shown = _shown(place, content.data, sight)
        if isinstance(shown, Attached) and shown.words is not None:
            self.doors.seen.note(sight.session_id, place, content.stamp)
        return shown

    async def shell(self, piece: ShellPiece, directory: str) -> str:
        with _said(piece.script, self.scratch) as words:
            ended = await self.doors.processes.run(words, cwd=Path(directory), timeout=SHELL_SECONDS)
        return _told(piece, ended)


def _refused(place: Place, judge: Judge, asks: Sequence[Ask], *, meant: bool) -> NotAllowed | None:
    """Return why the rules for `read` refuse the path, or None; `meant` accepts rules that ask."""
    accepted: tuple[Action, ...] = ("allow", "ask") if meant else ("allow",)
    for ask in asks:
        action = judge(ask)
        if action not in accepted:
            says = "deny it" if action == "deny" else "would ask first"
            why = f"{place.name} cannot be attached: the rules for {ask.permission} {says}"
            return NotAllowed(why, isinstance(place, Outside))
    return None


def _folder(files: Files, place: Place) -> Attached:
    entries = files.names(place)
    lines = [f"{entry.name}{'/' if entry.folder else '@' if entry.link else ''}" for entry in entries]
    more = [f"(and {len(lines) - MOST_NAMES} more)"] if len(lines) > MOST_NAMES else []
    words = whole("\n".join([*lines[:MOST_NAMES], *more]) or "(the folder is empty)")
    return Attached(path=place.path, name=whole(place.name), mime=FOLDER, words=words)


def _shown(place: Place, data: bytes, sight: Sight) -> Attached | Unfit:
    if len(data) > LARGEST:
        return Unfit(f"{place.name} is larger than 10 MiB: attach a part of it, or make it smaller")
    mime = told_mime(place.name, data)
    if mime is None:
        return Unfit(f"{place.name} is neither text nor an image nor a PDF: if it is text, save it as UTF-8")
    if mime == "text/plain":
        return _text(place, data.decode().removeprefix(BOM), sight)
    url = f"data:{mime};base64,{b64encode(data).decode()}"
    return Attached(path=place.path, name=place.name, mime=mime, data=url)


def told_mime(name: str, data: bytes) -> str | None:
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


def _text(place: Place, text: str, sight: Sight) -> Attached | Unfit:
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    first = max(1, sight.first or 1)
    last = len(lines) if sight.last is None else sight.last
    if first > max(1, len(lines)) or last < first - 1:
        return Unfit(f"{place.name} has {len(lines)} lines: there are none from {first} to {last}")
    words = "\n".join(lines[first - 1 : last])
    return Attached(path=place.path, name=place.name, mime="text/plain", words=words or "(empty)")


def _cut(shown: Attached | Unfit) -> Attached | Unfit:
    if isinstance(shown, Unfit) or len(shown.words or "") <= MOST_CHARS:
        return shown
    note = f"(Cut after {MOST_CHARS} characters: the tool read has the rest.)"
    return replace(shown, words=f"{(shown.words or '')[:MOST_CHARS]}\n{note}")


@contextmanager
def _said(script: str, scratch: Path) -> Iterator[tuple[str, ...]]:
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


def _told(piece: ShellPiece, ended: Ended) -> str:
    said = ended.output.rstrip("\n")
    if ended.timed_out:
        note = f"[The command `{piece.command}` was ended after {SHELL_SECONDS:g} s.]"
    elif ended.exit:
        note = f"[The command `{piece.command}` failed with exit code {ended.exit}.]"
    else:
        return said
    return f"{said}\n{note}" if said else note
