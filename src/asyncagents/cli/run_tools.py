"""The tools and todos of a tree of sessions as they happen, those of others with a name."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from asyncagents.cli.run_tasks import TaskLines, task_of
from asyncagents.cli.screen import Line, Screen
from asyncagents.cli.task_words import label
from asyncagents.cli.tool_line import begun, is_silent, tail, todo_lines, tool_lines, unheard
from asyncagents.domain.ask import PermissionRequest, ToolRef
from asyncagents.domain.background_task import BackgroundTask
from asyncagents.domain.event import (
    Event,
    PartUpdated,
    PermissionAsked,
    SessionCreated,
    SessionUpdated,
    TodoUpdated,
)
from asyncagents.domain.history import Entry
from asyncagents.domain.id import PartId, SessionId
from asyncagents.domain.part import ToolCompleted, ToolError, ToolPart, ToolRunning, ToolState
from asyncagents.domain.session import Session
from asyncagents.domain.todo import Todo


class Live(Struct):
    """What a running command wrote, as far as it was shown."""

    heard: str = ""
    begun: str = ""
    """The beginning of a line that is not at its end."""


class Tools:
    """`tree`: the sessions there are; those that they start are heard of.

    `asked`: a person is shown here what would change before it does, and need not see it twice.
    """

    def __init__(
        self, screen: Screen, own: SessionId, tree: Iterable[Session], *, asked: bool = False
    ) -> None:
        self._screen = screen
        self.own = own
        self._names = {session.id: label(session) for session in tree}
        self._told: dict[PartId, type[ToolState]] = {}
        self._live: dict[PartId, Live] = {}
        self._asked = asked
        self._diffs: dict[ToolRef, object] = {}
        self._todos: dict[SessionId, tuple[Todo, ...]] = {}
        self._tasks = TaskLines()
        self._held: dict[ToolRef, tuple[SessionId, list[Line]]] = {}
        """That a call has begun: where a person is asked for it, the ask says what it is."""

    def know(self, entries: Iterable[Entry], tasks: Iterable[BackgroundTask] = ()) -> None:
        """These were there before, and are not shown as they are."""
        self._tasks.know(tasks)
        for entry in entries:
            for part in entry.parts:
                if isinstance(part, ToolPart):
                    self._told[part.id] = type(part.state)

    def take(self, event: Event) -> None:
        task = task_of(event)
        if task is not None and task.parent_session_id in self._names:
            self._show(task.parent_session_id, self._tasks.take(task))
        match event:
            case SessionCreated(info=info) | SessionUpdated(info=info) if info.parent_id in self._names:
                self._names[info.id] = label(info)
            case TodoUpdated(session_id=session_id, todos=todos) if session_id in self._names:
                if todos and todos != self._todos.get(session_id):
                    self._show(session_id, todo_lines(todos))
                self._todos[session_id] = todos
            case PermissionAsked(request=PermissionRequest(tool=ToolRef() as tool, metadata=metadata)):
                if self._asked:
                    self._held.pop(tool, None)
                    self._diffs[tool] = metadata.get("diff")
            case PartUpdated(session_id=session_id, part=ToolPart() as part) if session_id in self._names:
                self._part(session_id, part)
            case _:
                pass

    def _part(self, session_id: SessionId, part: ToolPart) -> None:
        if self._told.get(part.id) is not type(part.state):
            self._told[part.id] = type(part.state)
            if isinstance(part.state, ToolRunning) and self._asked:
                self._held[_ref(part)] = (session_id, begun(part))
                return
            self._show(session_id, self._lines(part))
        if isinstance(part.state, ToolRunning) and part.state.metadata and self._screen.watched:
            self._show(session_id, self._more(part, part.state.metadata))

    def _lines(self, part: ToolPart) -> list[Line]:
        match part.state:
            case ToolRunning():
                return begun(part)
            case ToolCompleted(metadata=metadata):
                unsaid = self._rest(part, metadata) if part.id in self._live else None
                lines = [] if is_silent(part.tool) else tool_lines(part, unsaid=unsaid)
                seen = self._diffs.pop(_ref(part), None)
                return lines[:1] if seen is not None and seen == metadata.get("diff") else lines
            case ToolError(metadata={"sessionId": str()}) if is_silent(part.tool):
                return []  # the task itself was said to have failed
            case _:
                return tool_lines(part)

    def _more(self, part: ToolPart, metadata: dict[str, Any]) -> list[Line]:
        """The lines that a running command has ended since."""
        output = metadata.get("output")
        if not isinstance(output, str):
            return []
        live = self._live.setdefault(part.id, Live())
        whole, _, live.begun = (live.begun + unheard(live.heard, output)).rpartition("\n")
        live.heard = output
        return tail(whole)

    def _rest(self, part: ToolPart, metadata: dict[str, Any]) -> str:
        live = self._live.pop(part.id)
        return live.begun + unheard(live.heard, str(metadata.get("output", "")))

    def show_held(self) -> None:
        """Show which calls have begun; no person was asked for them."""
        held, self._held = self._held, {}
        for session_id, lines in held.values():
            self._show(session_id, lines)

    def _show(self, session_id: SessionId, lines: Iterable[Line]) -> None:
        if self._held:
            self.show_held()
        name = "" if session_id == self.own else f"[{self._names[session_id]}] "
        self._screen.show(Line(f"{name}{line.text}", line.tone) for line in lines)


def _ref(part: ToolPart) -> ToolRef:
    return ToolRef(message_id=part.message_id, call_id=part.call_id)
