"""Renders tool calls for people: a line, and below it a diff or the tail of the output."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from asyncagents.cli.terminal.screen import Line, Tone, one_line, plain
from asyncagents.domain.conversation.part import ToolCompleted, ToolError, ToolPart, ToolRunning, ToolWaiting
from asyncagents.domain.conversation.todo import Todo, TodoStatus

WIDTH = 120
MOST_DIFF = 24
MOST_OUTPUT = 6
MOST_TODOS = 40
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_BOXES: dict[TodoStatus, str] = {
    "pending": "[ ]",
    "in_progress": "[>]",
    "completed": "[x]",
    "cancelled": "[-]",
}
_EDITS = ("edit", "write", "patch")
_LAUNCHERS = ("task", "async_task", "asyncagents_task")
_SILENT = ("todowrite", "todoread", *_LAUNCHERS)
"""Tools without a line: their todos or tasks are shown instead."""


def named(tool: str, given: Mapping[str, Any]) -> str:
    """Describe a call in a few words; a call of a custom tool with its arguments."""
    name = _NAMES.get(tool)
    if name is None:
        said = ", ".join(f"{key}={value}" for key, value in given.items())
        return f"{tool}({one_line(said, WIDTH)})"
    return one_line(f"{tool}{name(given)}", WIDTH)


def _at(key: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda given: f" {given.get(key) or '.'}"


def _search(given: Mapping[str, Any]) -> str:
    where = f" in {given['path']}" if given.get("path") else ""
    return f" {given.get('pattern', '')}{where}"


def _questions(given: Mapping[str, Any]) -> str:
    asked = given.get("questions")
    texts = [str(each.get("question", "")) for each in asked if isinstance(each, dict)] if asked else []
    return f": {' / '.join(texts)}"


def _wait(given: Mapping[str, Any]) -> str:
    until = given.get("until")
    return f" until {until}" if until else f" {given.get('seconds')} s"


def _task(given: Mapping[str, Any]) -> str:
    agent = given.get("agent") or given.get("subagent_type")
    return f" {given.get('description') or given.get('resume') or ''}{f' ({agent})' if agent else ''}"


_NAMES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "read": _at("filePath"),
    "write": _at("filePath"),
    "edit": _at("filePath"),
    "patch": lambda given: "",
    "list": _at("path"),
    "glob": _search,
    "grep": _search,
    "bash": lambda given: f": {given.get('command', '')}",
    "webfetch": lambda given: f" {given.get('url', '')}",
    "skill": lambda given: f" {given.get('name', '')}",
    "todowrite": lambda given: "",
    "todoread": lambda given: "",
    "question": _questions,
    "wait": _wait,
    **dict.fromkeys(_LAUNCHERS, _task),
}


def begun(part: ToolPart) -> list[Line]:
    """Render a line at the start of calls that may take long: bash, webfetch and custom tools."""
    if part.tool in ("bash", "webfetch") or part.tool not in _NAMES:
        return [Line(named(part.tool, part.state.input))]
    return []


def tool_lines(part: ToolPart, *, unsaid: str | None = None) -> list[Line]:
    """Render the state of a call. `unsaid`: the part of its output not shown yet, if some was shown."""
    name = named(part.tool, part.state.input)
    match part.state:
        case ToolRunning():
            return [Line(name)]
        case ToolCompleted() as state:
            return list(_completed(part.tool, name, state, unsaid))
        case ToolError(error=error):
            return [Line(f"{name} failed: {one_line(error)}")]
        case ToolWaiting(output=note) if part.tool == "wait":
            return [Line(f"wait {one_line(note or '')}")]
        case ToolWaiting(output=note):
            return [Line(f"{name} waits: {one_line(note or 'its result comes later')}")]
        case _:
            return []


def _completed(tool: str, name: str, state: ToolCompleted, unsaid: str | None) -> Iterator[Line]:
    diff, output = state.metadata.get("diff"), state.metadata.get("output")
    if tool in _EDITS and isinstance(diff, str):
        title = one_line(f"{tool} {state.title}", WIDTH)
        yield Line(f"{title} {counted(diff)}" if diff else f"{title}, nothing to change")
        yield from diff_lines(diff)
    elif tool == "bash" and isinstance(output, str):
        yield Line(f"{name} -> {_ending(state.metadata)}")
        yield from tail(output if unsaid is None else unsaid)
    elif tool == "question":
        yield Line(f"{name} -> {one_line(_answers(state.metadata), WIDTH)}")
    elif tool == "wait":
        yield Line(f"{name} -> {one_line(state.output, 100)}")
    elif tool in _NAMES:
        yield Line(f"{name}{_found(state.metadata)}")
    else:
        yield Line(f"{name} -> {one_line(state.title or state.output, 100)}")


def is_silent(tool: str) -> bool:
    return tool in _SILENT


def _ending(metadata: Mapping[str, Any]) -> str:
    return "timed out" if metadata.get("timedOut") else f"exit {metadata.get('exit')}"


def _answers(metadata: Mapping[str, Any]) -> str:
    answers = metadata.get("answers")
    return " / ".join(", ".join(map(str, each)) for each in answers) if isinstance(answers, list) else ""


def _found(metadata: Mapping[str, Any]) -> str:
    for key in ("lines", "matches", "count"):
        if isinstance(metadata.get(key), int):
            word = "found" if key == "count" else key
            return f", {metadata[key]} {word}" + (" and more" if metadata.get("truncated") else "")
    return ""


def counted(diff: str) -> str:
    """Count added and removed lines, as in `+3 -1`."""
    tones = [line.tone for line in _toned(diff)]
    return f"+{tones.count('add')} -{tones.count('remove')}"


def diff_lines(diff: str, most: int | None = MOST_DIFF) -> list[Line]:
    """Render the changes of a unified diff, and how many lines are left out."""
    lines = [Line(f"  {line.text}", line.tone) for line in _toned(diff)]
    return lines if most is None else _capped(lines, most)


def _toned(diff: str) -> Iterator[Line]:
    """Classify the lines of a diff by the lengths in its hunk headers: a removed line may begin with `--`."""
    old = new = 0
    for text in diff.split("\n"):
        if found := _HUNK.match(text):
            old, new = (int(length or 1) for length in found.groups())
            yield Line(text, "place")
        elif old <= 0 and new <= 0:
            if text.strip() and not text.startswith("--- "):
                yield Line(text.removeprefix("+++ "), "place")
        else:
            tone = _TONES.get(text[:1], "note")
            old -= tone == "remove" or text[:1] == " "
            new -= tone == "add" or text[:1] == " "
            yield Line(text, tone)


_TONES: dict[str, Tone] = {"+": "add", "-": "remove"}


def tail(output: str, most: int = MOST_OUTPUT) -> list[Line]:
    """Render the last lines of an output, and how many came before."""
    written = _ESCAPES.sub("", output).rstrip().split("\n")
    lines = [plain(line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in written]
    lines = lines if any(lines) else []
    left_out = len(lines) - most
    before = [Line(f"  … {left_out} more above")] if left_out > 0 else []
    return [*before, *(Line(f"  {one_line_of(line)}") for line in lines[-most:])]


def one_line_of(text: str) -> str:
    """Cut a line, keeping its spaces: they align columns."""
    return text if len(text) <= 200 else f"{text[:199]}…"


def unheard(before: str, now: str) -> str:
    """Return what `now` adds to `before`; both may be truncated at the start."""
    for length in range(min(len(before), len(now)), 0, -1):
        if now.startswith(before[len(before) - length :]):
            return now[length:]
    _, known, rest = now.rpartition(before) if before else ("", "", "")
    return rest if known else now


def _capped(lines: Sequence[Line], most: int) -> list[Line]:
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], Line(f"  … {len(lines) - most + 1} more lines")]


def todo_lines(todos: Sequence[Todo]) -> list[Line]:
    done = sum(todo.status == "completed" for todo in todos)
    boxes = [Line(f"  {_BOXES[todo.status]} {one_line(todo.content, WIDTH)}") for todo in todos]
    return [Line(f"todos, {done} of {len(todos)} done:"), *_capped(boxes, MOST_TODOS)]
