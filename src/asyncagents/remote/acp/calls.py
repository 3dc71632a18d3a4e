"""The calls that an external agent shows: merged from its updates, and what each needs a permission for."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.backend import OBSERVED_TOOL
from asyncagents.domain.agent.permission import EXTERNAL_AGENT, UNCLEAR, WEBFETCH
from asyncagents.domain.text import replace_surrogates, replace_surrogates_in, shorten_middle, shorten_result
from asyncagents.engine.external.agent import CallStatus, ExternalCallUpdate
from asyncagents.engine.tool import Ask
from asyncagents.remote.acp.content import changed_paths, content_text, location_paths, output_text
from asyncagents.remote.acp.wire import ToolCallFields, Update
from asyncagents.tools.file.external_directory import file_ask
from asyncagents.tools.shell.rules import command_asks

MOST_TITLE = 500
MOST_NAME = 64
MOST_INPUT_TEXT = 100_000
"""Characters of each text in the input of a call that are kept."""
OTHER = "other"
PATH_KEYS = ("filePath", "file_path", "path", "absolute_path", "filepath", "filename", "target_file")
"""Arguments in which agents name the file of a call; `paths` names several."""

_STATUS: dict[str, CallStatus] = {
    "pending": "pending",
    "in_progress": "running",
    "completed": "completed",
    "failed": "failed",
}
ShownCall: TypeAlias = Update | ToolCallFields


class MergedCall(Struct, frozen=True, kw_only=True):
    """All that was shown of a call so far; an update holds only what is new."""

    key: str
    kind: str = OTHER
    """What it does. A request of kind "other" belongs to the call: OpenCode asks so for places outside."""
    name: str = ""
    title: str = ""
    status: CallStatus = "pending"
    input: dict[str, Any] = {}
    content: str = ""
    output: str = ""
    paths: tuple[str, ...] = ()
    folder: str = ""
    """Where a command runs; a request for a permission may leave it out."""

    def merge(self, shown: ShownCall) -> "MergedCall":
        paths = dict.fromkeys((*location_paths(shown.locations), *changed_paths(shown.content)))
        given = shown.raw_input
        return replace(
            self,
            kind=self.kind if not shown.kind or shown.kind == OTHER else shown.kind[:MOST_NAME],
            name=shown.name or self.name,
            title=shown.title if shown.title is not None else self.title,
            status=_STATUS.get(shown.status or "", self.status),
            input=given if isinstance(given, dict) and given else self.input,
            content=self.content if shown.content is None else shorten_result(content_text(shown.content)),
            output=self.output if shown.raw_output is None else shorten_result(output_text(shown.raw_output)),
            paths=tuple(paths) or self.paths,
            folder=_command_folder(given) or self.folder,
        )

    def as_update(self) -> ExternalCallUpdate:
        tool = replace_surrogates(self.name or self.kind)[:MOST_NAME]
        metadata = {"kind": self.kind, "paths": list(self.paths)} if self.paths else {"kind": self.kind}
        return ExternalCallUpdate(
            key=replace_surrogates(self.key),
            tool=f"{OBSERVED_TOOL}{tool}",
            status=self.status,
            title=replace_surrogates(self.title)[:MOST_TITLE],
            input=replace_surrogates_in(_shorten_texts(self.input) or {"title": self.title[:MOST_TITLE]}),
            output=replace_surrogates(self.content or self.output),
            metadata=replace_surrogates_in(metadata),
        )


def _shorten_texts(value: Any) -> Any:
    match value:
        case str():
            return shorten_middle(value, MOST_INPUT_TEXT)
        case dict():
            return {name: _shorten_texts(item) for name, item in value.items()}
        case list():
            return [_shorten_texts(item) for item in value]
        case _:
            return value


class CallLog:
    """The calls of one step by the agent's own id."""

    def __init__(self) -> None:
        self._calls: dict[str, MergedCall] = {}

    def knows(self, key: str) -> bool:
        return key in self._calls

    def merge(self, shown: ShownCall) -> MergedCall:
        known = self._calls.get(shown.tool_call_id, MergedCall(key=shown.tool_call_id))
        merged = self._calls[shown.tool_call_id] = known.merge(shown)
        return merged


def call_asks(call: MergedCall, *, agent: str, directory: str, worktree: str, home: Path) -> tuple[Ask, ...]:
    """Return the asks of a call that an external agent wants to make, as our own tools would ask."""
    match call.kind:
        case "edit" | "delete" | "move":
            return _file_asks("edit", call, directory, worktree)
        case "read" | "search":
            return _file_asks("read", call, directory, worktree)
        case "execute":
            return _command_asks(call, directory, home)
        case "fetch":
            url = call.input.get("url")
            address = url if isinstance(url, str) else call.title or "*"
            return (Ask(WEBFETCH, (address,), (address,), _metadata(call), exact=True),)
        case _:
            outside = [path for path in _absolute_paths(call, directory) if not _is_inside(path, worktree)]
            places = (file_ask(*outside, change=True),) if outside else ()
            return (*places, Ask(EXTERNAL_AGENT, (agent,), (), _metadata(call)))


def _metadata(call: MergedCall) -> dict[str, Any]:
    shown = {"paths": replace_surrogates_in(list(call.paths))} if call.paths else {}
    return {"title": replace_surrogates(call.title)[:MOST_TITLE], "kind": call.kind, **shown}


def _file_asks(permission: str, call: MergedCall, directory: str, worktree: str) -> tuple[Ask, ...]:
    """Ask for the files that a call names; one that names none, and is no search, asks as an unclear one."""
    paths = _absolute_paths(call, directory)
    outside = [path for path in paths if not _is_inside(path, worktree)]
    patterns = tuple(
        os.path.relpath(path, worktree) if _is_inside(path, worktree) else path for path in paths
    )
    asks = (file_ask(*outside, change=permission == "edit"),) if outside else ()
    unclear = () if patterns or call.kind == "search" else (UNCLEAR,)
    return (*asks, Ask(permission, patterns or ("*",), patterns, _metadata(call), also=unclear, exact=True))


def _absolute_paths(call: MergedCall, directory: str) -> list[str]:
    """Return the paths that a call names, without folders of the others."""
    paths = [os.path.normpath(os.path.join(directory, path)) for path in _named_paths(call)]
    return [path for path in paths if not any(_is_inside(other, path) for other in paths if other != path)]


def _named_paths(call: MergedCall) -> Iterable[str]:
    given = [call.input.get(key) for key in PATH_KEYS]
    several = call.input.get("paths")
    given += several if isinstance(several, list) else []
    return dict.fromkeys((*call.paths, *(path for path in given if isinstance(path, str) and path)))


def _is_inside(path: str, worktree: str) -> bool:
    return path == worktree or path.startswith(worktree.rstrip("/") + "/")


def _command_asks(call: MergedCall, directory: str, home: Path) -> tuple[Ask, ...]:
    """Ask for each command of a line; a command that is not shown asks as an unclear one."""
    command = call.input.get("command")
    if isinstance(command, list):
        command = " ".join(str(word) for word in command)
    if not isinstance(command, str) or not command.strip():
        shown = call.title or "*"
        return (Ask("bash", (shown,), (), _metadata(call), also=(UNCLEAR,)),)
    start = Path(directory) / call.folder
    return command_asks(command, directory=Path(directory), start=start, home=home)


def _command_folder(given: Any) -> str:
    named = (given.get(key) for key in ("workdir", "cwd", "directory")) if isinstance(given, dict) else ()
    return next((folder for folder in named if isinstance(folder, str) and folder), "")
