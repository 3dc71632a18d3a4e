"""Renders a line for each task that is launched, resumed or ended."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.cli.terminal.labels import run_duration, session_label, tools_text
from asyncagents.cli.terminal.screen import Screen, ScreenLine, one_line
from asyncagents.cli.terminal.tool_line import (
    is_silent,
    new_output,
    start_lines,
    tail_lines,
    todo_lines,
    tool_lines,
)
from asyncagents.config.clock import SystemClock
from asyncagents.domain.call.ask import PermissionRequest, ToolRef
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart, ToolRunning, ToolState
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import (
    Event,
    PartUpdated,
    PermissionAsked,
    SessionCreated,
    SessionUpdated,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskUpdated,
    TodoUpdated,
)
from asyncagents.domain.id import PartId, SessionId
from asyncagents.domain.task.summary import ENDED_BY
from asyncagents.domain.task.task import LIVE
from asyncagents.domain.task.view import BackgroundTask

TaskPoint: TypeAlias = tuple[int, bool]
"""The number of a task's run, and whether it has ended."""


def task_in_event(event: Event) -> BackgroundTask | None:
    match event:
        case TaskCreated() | TaskUpdated() | TaskCompleted() | TaskFailed() | TaskCancelled():
            return event.task
        case _:
            return None


class TaskLines:
    """Renders each launch and end once, however many events report it."""

    def __init__(self) -> None:
        self._known: dict[SessionId, TaskPoint] = {}

    def mark_known(self, tasks: Iterable[BackgroundTask]) -> None:
        """Mark tasks as shown."""
        for task in tasks:
            self._known[task.session_id] = _point(task)

    def lines_for(self, task: BackgroundTask) -> Iterator[ScreenLine]:
        before, now = self._known.get(task.session_id), _point(task)
        if before is not None and now <= before:
            return
        self._known[task.session_id] = now
        if before is None or now[0] > before[0]:
            yield ScreenLine(
                f"{_task_name(task)} {'resumed' if task.resume_count else 'launched'}, {task.session_id}"
            )
        if task.status not in LIVE:
            yield ScreenLine(f"{_task_name(task)} {_ending_text(task)}")


def _point(task: BackgroundTask) -> TaskPoint:
    return task.resume_count, task.status not in LIVE


def _task_name(task: BackgroundTask) -> str:
    return f'task "{one_line(task.description, 60)}" ({one_line(task.agent, 40)})'


def _ending_text(task: BackgroundTask) -> str:
    after = run_duration(task, SystemClock().now())
    match task.status:
        case "error":
            return f"failed after {after}: {one_line(task.error or 'no reason given')}"
        case "cancelled":
            by = f": {ENDED_BY[task.ended_by]}" if task.ended_by else ""
            return f"cancelled after {after}{by}"
        case _:
            return f"completed after {after}, {tools_text(task)}"


class LiveOutput(Struct):
    """The output of a running command that was shown."""

    last_output: str = ""
    open_line: str = ""
    """The start of an unfinished line."""


class ToolView:
    """`tree`: the sessions now; children are added by events.

    `asked`: asks show a person each change in advance here, so that it is not shown twice.
    """

    def __init__(
        self, screen: Screen, own: SessionId, tree: Iterable[Session], *, asked: bool = False
    ) -> None:
        self._screen = screen
        self.own_id = own
        self._names = {session.id: session_label(session) for session in tree}
        self._shown_states: dict[PartId, type[ToolState]] = {}
        self._live: dict[PartId, LiveOutput] = {}
        self._asks_person = asked
        self._diffs: dict[ToolRef, object] = {}
        self._todos: dict[SessionId, tuple[Todo, ...]] = {}
        self._tasks = TaskLines()
        self._held_lines: dict[ToolRef, tuple[SessionId, list[ScreenLine]]] = {}
        """Start lines of calls, held back: if an ask follows, the ask shows the call instead."""

    def mark_known(self, entries: Iterable[MessageWithParts], tasks: Iterable[BackgroundTask] = ()) -> None:
        """Mark existing tool parts and tasks as shown."""
        self._tasks.mark_known(tasks)
        for entry in entries:
            for part in entry.parts:
                if isinstance(part, ToolPart):
                    self._shown_states[part.id] = type(part.state)

    def show_event(self, event: Event) -> None:
        task = task_in_event(event)
        if task is not None and task.parent_session_id in self._names:
            self._show(task.parent_session_id, self._tasks.lines_for(task))
        match event:
            case SessionCreated(info=info) | SessionUpdated(info=info) if info.parent_id in self._names:
                self._names[info.id] = session_label(info)
            case TodoUpdated(session_id=session_id, todos=todos) if session_id in self._names:
                if todos and todos != self._todos.get(session_id):
                    self._show(session_id, todo_lines(todos))
                self._todos[session_id] = todos
            case PermissionAsked(request=PermissionRequest(tool=ToolRef() as tool, metadata=metadata)):
                if self._asks_person:
                    self._held_lines.pop(tool, None)
                    self._diffs[tool] = metadata.get("diff")
            case PartUpdated(session_id=session_id, part=ToolPart() as part) if session_id in self._names:
                self._show_part(session_id, part)
            case _:
                pass

    def _show_part(self, session_id: SessionId, part: ToolPart) -> None:
        if self._shown_states.get(part.id) is not type(part.state):
            self._shown_states[part.id] = type(part.state)
            if isinstance(part.state, ToolRunning) and self._asks_person:
                self._held_lines[_ref(part)] = (session_id, start_lines(part))
                return
            self._show(session_id, self._lines(part))
        if isinstance(part.state, ToolRunning) and part.state.metadata and self._screen.stderr_is_terminal:
            self._show(session_id, self._new_output_lines(part, part.state.metadata))

    def _lines(self, part: ToolPart) -> list[ScreenLine]:
        match part.state:
            case ToolRunning():
                return start_lines(part)
            case ToolCompleted(metadata=metadata):
                unsaid = self._unshown_output(part, metadata) if part.id in self._live else None
                lines = [] if is_silent(part.tool) else tool_lines(part, unsaid=unsaid)
                seen = self._diffs.pop(_ref(part), None)
                return lines[:1] if seen is not None and seen == metadata.get("diff") else lines
            case ToolFailed(metadata={"sessionId": str()}) if is_silent(part.tool):
                return []  # the task's own line says that it failed
            case _:
                return tool_lines(part)

    def _new_output_lines(self, part: ToolPart, metadata: dict[str, Any]) -> list[ScreenLine]:
        """Return the complete lines that a running command has written since the last call."""
        output = metadata.get("output")
        if not isinstance(output, str):
            return []
        live = self._live.setdefault(part.id, LiveOutput())
        whole, _, live.open_line = (live.open_line + new_output(live.last_output, output)).rpartition("\n")
        live.last_output = output
        return tail_lines(whole)

    def _unshown_output(self, part: ToolPart, metadata: dict[str, Any]) -> str:
        live = self._live.pop(part.id)
        return live.open_line + new_output(live.last_output, str(metadata.get("output", "")))

    def show_held(self) -> None:
        """Show the start lines that were held back: no ask came for these calls."""
        held, self._held_lines = self._held_lines, {}
        for session_id, lines in held.values():
            self._show(session_id, lines)

    def _show(self, session_id: SessionId, lines: Iterable[ScreenLine]) -> None:
        if self._held_lines:
            self.show_held()
        name = "" if session_id == self.own_id else f"[{self._names[session_id]}] "
        self._screen.show_lines(ScreenLine(f"{name}{line.text}", line.tone) for line in lines)


def _ref(part: ToolPart) -> ToolRef:
    return ToolRef(message_id=part.message_id, call_id=part.call_id)
