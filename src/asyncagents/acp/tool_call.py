"""Show a tool part as a tool call of the protocol: kind, title, locations, diffs and output."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from asyncagents.acp.file_change import absolute, patched_paths, show_changes
from asyncagents.acp.shape import FileLocation, ShownContent, TextContent, ToolContent
from asyncagents.domain.agent.backend import OBSERVED_TOOL
from asyncagents.domain.conversation.part import (
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
    ToolWaiting,
)
from asyncagents.domain.text import shorten_middle

ToolKind: TypeAlias = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"
]

MAX_OUTPUT = 60_000
"""Characters of a call's output that are sent; the rest stays in the session."""
PLAN_TOOLS = frozenset({"todowrite", "todoread"})
"""Shown as the plan, not as calls."""

_KINDS: dict[str, ToolKind] = {
    "read": "read", "list": "read", "skill": "read",
    "edit": "edit", "write": "edit", "patch": "edit",
    "glob": "search", "grep": "search",
    "bash": "execute",
    "webfetch": "fetch",
    "task": "think", "async_task": "think", "asyncagents_task": "think", "question": "think",
}  # fmt: skip
_SHOWN_KINDS: tuple[ToolKind, ...] = get_args(ToolKind)
_PATH_KEYS = ("filePath", "path", "filepath")
NO_METADATA: Mapping[str, Any] = {}


class ShownCall(Struct, frozen=True, kw_only=True):
    """What people see of a call at one moment."""

    title: str
    kind: ToolKind
    status: str
    content: tuple[ToolContent, ...]
    locations: tuple[FileLocation, ...]
    input: dict[str, Any]


def tool_kind(tool: str, metadata: Mapping[str, Any] = NO_METADATA) -> ToolKind:
    """Return the kind of a tool, or the one that an external agent gave to its call."""
    if tool.startswith(OBSERVED_TOOL):
        return next((kind for kind in _SHOWN_KINDS if kind == metadata.get("kind")), "other")
    return _KINDS.get(tool, "other")


def show_call(part: ToolPart, directory: str) -> ShownCall:
    """Show a tool part; paths are made absolute below the session's directory."""
    state = part.state
    metadata = _metadata(state)
    return ShownCall(
        title=call_title(part.tool, state.input, _state_title(state)),
        kind=tool_kind(part.tool, metadata),
        status=_status(state),
        content=_content(part.tool, state, directory),
        locations=call_locations(part.tool, state.input, directory, metadata),
        input=state.input,
    )


def call_title(tool: str, arguments: dict[str, Any], title: str = "") -> str:
    """Name a call in one line: the command, the file, the pattern, or what the tool itself wrote."""
    if tool == "bash":
        shown = arguments.get("command")
    else:
        shown = title or next(
            (
                arguments[key]
                for key in ("description", "pattern", "url", "query", *_PATH_KEYS)
                if arguments.get(key)
            ),
            None,
        )
    line = " ".join(str(shown).split()) if shown else ""
    if not line:
        return tool
    return shorten_middle(line if tool == "bash" else f"{tool} {line}", 200)


def call_locations(
    tool: str, arguments: dict[str, Any], directory: str, metadata: Mapping[str, Any] = NO_METADATA
) -> tuple[FileLocation, ...]:
    """Return the files that a call names, or that an external agent has shown of it."""
    patch, shown = arguments.get("patchText"), metadata.get("paths")
    if tool == "patch" and isinstance(patch, str):
        return tuple(FileLocation(path=path) for path in patched_paths(patch, directory))
    if tool.startswith(OBSERVED_TOOL) and isinstance(shown, list):
        return tuple(FileLocation(path=absolute(str(each), directory)) for each in shown)
    path = next((arguments[key] for key in _PATH_KEYS if isinstance(arguments.get(key), str)), None)
    if not path:
        return ()
    line = arguments.get("offset")
    return (FileLocation(path=absolute(path, directory), line=line if _is_line(line) else None),)


def _is_line(line: Any) -> bool:
    return isinstance(line, int) and not isinstance(line, bool) and 0 <= line < 2**32


def text_content(text: str) -> ShownContent:
    return ShownContent(content=TextContent(text=_cut(text)))


def _cut(text: str) -> str:
    return shorten_middle(text, MAX_OUTPUT)


def _state_title(state: ToolState) -> str:
    return "" if isinstance(state, ToolPending | ToolFailed) else state.title or ""


def _metadata(state: ToolState) -> dict[str, Any]:
    return {} if isinstance(state, ToolPending) else state.metadata or {}


def _status(state: ToolState) -> str:
    match state:
        case ToolPending():
            return "pending"
        case ToolRunning() | ToolWaiting():
            return "in_progress"
        case ToolCompleted():
            return "completed"
        case ToolFailed():
            return "failed"


def _content(tool: str, state: ToolState, directory: str) -> tuple[ToolContent, ...]:
    metadata = _metadata(state)
    changes = show_changes(tool, state.input, metadata, directory)
    match state:
        case ToolPending():
            return ()
        case ToolFailed(error=error):
            return (text_content(error),)
        case _ if changes:
            return changes
        case ToolCompleted(output=output):
            return (text_content(_terminal(output) if tool == "bash" else output),) if output else ()
        case ToolRunning():
            return _progress(tool, metadata)
        case ToolWaiting(output=note):
            return (text_content(note),) if note else ()


def _terminal(output: str) -> str:
    fence = "````" if "```" in output else "```"
    return f"{fence}console\n{output.rstrip()}\n{fence}"


def _progress(tool: str, metadata: dict[str, Any]) -> tuple[ToolContent, ...]:
    """Show the output so far of a command, or the calls that a child has made."""
    output = metadata.get("output")
    if isinstance(output, str) and output:
        return (text_content(_terminal(output) if tool == "bash" else output),)
    calls = metadata.get("summary")
    if not isinstance(calls, list):
        return ()
    lines = [line for each in calls if isinstance(each, dict) and (line := _summary_line(each))]
    return (text_content("\n".join(lines)),) if lines else ()


def _summary_line(call: dict[str, Any]) -> str:
    state = call.get("state")
    title = state.get("title") if isinstance(state, dict) else None
    status = state.get("status") if isinstance(state, dict) else None
    words = [str(each) for each in (call.get("tool"), title, status) if each]
    return f"- {' '.join(words)}" if words else ""
