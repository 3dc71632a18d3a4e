"""Renders tool calls for people: a line, and below it a diff or the tail of the output."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from asyncagents.cli.terminal.screen import ScreenLine, Tone, one_line, plain
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart, ToolRunning, ToolWaiting
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


def tool_call_text(tool: str, given: Mapping[str, Any]) -> str:
    """Describe a call in a few words; a call of a custom tool with its arguments."""
    name = _NAMES.get(tool)
    if name is None:
        arguments = ", ".join(f"{key}={value}" for key, value in given.items())
        return f"{tool}({one_line(arguments, WIDTH)})"
    return one_line(f"{tool}{name(given)}", WIDTH)


def _argument(key: str) -> Callable[[Mapping[str, Any]], str]:
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
    "read": _argument("filePath"),
    "write": _argument("filePath"),
    "edit": _argument("filePath"),
    "patch": lambda given: "",
    "list": _argument("path"),
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


def start_lines(part: ToolPart) -> list[ScreenLine]:
    """Render a line at the start of calls that may take long: bash, webfetch and custom tools."""
    if part.tool in ("bash", "webfetch") or part.tool not in _NAMES:
        return [ScreenLine(tool_call_text(part.tool, part.state.input))]
    return []


def tool_lines(part: ToolPart, *, unsaid: str | None = None) -> list[ScreenLine]:
    """Render the state of a call. `unsaid`: the part of its output not shown yet, if some was shown."""
    name = tool_call_text(part.tool, part.state.input)
    match part.state:
        case ToolRunning():
            return [ScreenLine(name)]
        case ToolCompleted() as state:
            return list(_completed_lines(part.tool, name, state, unsaid))
        case ToolFailed(error=error):
            return [ScreenLine(f"{name} failed: {one_line(error)}")]
        case ToolWaiting(output=note) if part.tool == "wait":
            return [ScreenLine(f"wait {one_line(note or '')}")]
        case ToolWaiting(output=note):
            return [ScreenLine(f"{name} waits: {one_line(note or 'its result comes later')}")]
        case _:
            return []


def _completed_lines(tool: str, name: str, state: ToolCompleted, unsaid: str | None) -> Iterator[ScreenLine]:
    diff, output = state.metadata.get("diff"), state.metadata.get("output")
    if tool in _EDITS and isinstance(diff, str):
        title = one_line(f"{tool} {state.title}", WIDTH)
        yield ScreenLine(f"{title} {diff_counts(diff)}" if diff else f"{title}, nothing to change")
        yield from diff_lines(diff)
    elif tool == "bash" and isinstance(output, str):
        yield ScreenLine(f"{name} -> {_exit_text(state.metadata)}")
        yield from tail_lines(output if unsaid is None else unsaid)
    elif tool == "question":
        yield ScreenLine(f"{name} -> {one_line(_answers(state.metadata), WIDTH)}")
    elif tool == "wait":
        yield ScreenLine(f"{name} -> {one_line(state.output, 100)}")
    elif tool in _NAMES:
        yield ScreenLine(f"{name}{_count_suffix(state.metadata)}")
    else:
        yield ScreenLine(f"{name} -> {one_line(state.title or state.output, 100)}")


def is_silent(tool: str) -> bool:
    return tool in _SILENT


def _exit_text(metadata: Mapping[str, Any]) -> str:
    return "timed out" if metadata.get("timedOut") else f"exit {metadata.get('exit')}"


def _answers(metadata: Mapping[str, Any]) -> str:
    answers = metadata.get("answers")
    return " / ".join(", ".join(map(str, each)) for each in answers) if isinstance(answers, list) else ""


def _count_suffix(metadata: Mapping[str, Any]) -> str:
    for key in ("lines", "matches", "count"):
        if isinstance(metadata.get(key), int):
            word = "found" if key == "count" else key
            return f", {metadata[key]} {word}" + (" and more" if metadata.get("truncated") else "")
    return ""


def diff_counts(diff: str) -> str:
    """Count added and removed lines, as in `+3 -1`."""
    tones = [line.tone for line in _diff_tones(diff)]
    return f"+{tones.count('add')} -{tones.count('remove')}"


def diff_lines(diff: str, most: int | None = MOST_DIFF) -> list[ScreenLine]:
    """Render the changes of a unified diff, and how many lines are left out."""
    lines = [ScreenLine(f"  {line.text}", line.tone) for line in _diff_tones(diff)]
    return lines if most is None else _cap_lines(lines, most)


def _diff_tones(diff: str) -> Iterator[ScreenLine]:
    """Classify the lines of a diff by the lengths in its hunk headers: a removed line may begin with `--`."""
    old = new = 0
    for text in diff.split("\n"):
        if found := _HUNK.match(text):
            old, new = (int(length or 1) for length in found.groups())
            yield ScreenLine(text, "place")
        elif old <= 0 and new <= 0:
            if text.strip() and not text.startswith("--- "):
                yield ScreenLine(text.removeprefix("+++ "), "place")
        else:
            tone = _TONES.get(text[:1], "note")
            old -= tone == "remove" or text[:1] == " "
            new -= tone == "add" or text[:1] == " "
            yield ScreenLine(text, tone)


_TONES: dict[str, Tone] = {"+": "add", "-": "remove"}


def tail_lines(output: str, most: int = MOST_OUTPUT) -> list[ScreenLine]:
    """Render the last lines of an output, and how many came before."""
    written = _ESCAPES.sub("", output).rstrip().split("\n")
    lines = [plain(line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in written]
    lines = lines if any(lines) else []
    left_out = len(lines) - most
    before = [ScreenLine(f"  … {left_out} more above")] if left_out > 0 else []
    return [*before, *(ScreenLine(f"  {cut_line(line)}") for line in lines[-most:])]


def cut_line(text: str) -> str:
    """Cut a line, keeping its spaces: they align columns."""
    return text if len(text) <= 200 else f"{text[:199]}…"


def new_output(before: str, now: str) -> str:
    """Return what `now` adds to `before`; both may be truncated at the start."""
    for length in range(min(len(before), len(now)), 0, -1):
        if now.startswith(before[len(before) - length :]):
            return now[length:]
    _, known, rest = now.rpartition(before) if before else ("", "", "")
    return rest if known else now


def _cap_lines(lines: Sequence[ScreenLine], most: int) -> list[ScreenLine]:
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], ScreenLine(f"  … {len(lines) - most + 1} more lines")]


def todo_lines(todos: Sequence[Todo]) -> list[ScreenLine]:
    done = sum(todo.status == "completed" for todo in todos)
    boxes = [ScreenLine(f"  {_BOXES[todo.status]} {one_line(todo.content, WIDTH)}") for todo in todos]
    return [ScreenLine(f"todos, {done} of {len(todos)} done:"), *_cap_lines(boxes, MOST_TODOS)]
