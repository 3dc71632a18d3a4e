"""Show child sessions: as sessions of their own where the client can, else as a call with its progress."""

from msgspec import Struct

from asyncagents.acp.shape import SessionUpdateParams, SubagentUpdate, ToolCallBegin, ToolCallChange
from asyncagents.acp.tool_call import text_content
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.view import BackgroundTask

_CALL_STATUS = {"completed": "completed", "error": "failed", "cancelled": "failed"}


class _ShownTask(Struct, frozen=True):
    status: str
    text: str


class SubagentTranslator:
    def __init__(self, root_id: SessionId, *, shows_sessions: bool) -> None:
        self._root_id = root_id
        self._shows_sessions = shows_sessions
        self._met: set[SessionId] = set()
        self._parents: dict[SessionId, SessionId] = {}
        self._asking: set[SessionId] = set()
        self._tasks: dict[SessionId, _ShownTask] = {}

    def shows(self, session_id: SessionId) -> bool:
        """Whether updates of a child session are sent under its own id."""
        return session_id in self._met

    def meet_session(self, child: Session) -> list[SessionUpdateParams]:
        """Announce a child at its parent, before any update of the child."""
        if not self._shows_sessions or child.id in self._met or child.parent_id is None:
            return []
        self._met.add(child.id)
        self._parents[child.id] = child.parent_id
        update = SubagentUpdate(
            session_id=child.id,
            title=child.title,
            description=child.agent,
            state={"state": "running"},
            capabilities={"cancel": {}},
        )
        return [SessionUpdateParams(child.parent_id, update)]

    def show_task(self, task: BackgroundTask) -> list[SessionUpdateParams]:
        shown = _ShownTask(task.status, _task_text(task))
        before = self._tasks.get(task.session_id)
        if shown == before:
            return []
        self._tasks[task.session_id] = shown
        if self._shows_sessions:
            return self._show_state(task, before)
        return [] if task.kind == "sync" else [self._show_as_call(task, shown, begins=before is None)]

    def _show_state(self, task: BackgroundTask, before: _ShownTask | None) -> list[SessionUpdateParams]:
        if before is not None and before.status == task.status:
            return []
        announced = task.session_id in self._met
        self._met.add(task.session_id)
        self._parents[task.session_id] = task.parent_session_id
        ended = task.status in _CALL_STATUS
        if announced and before is None and not ended:
            return []  # it was announced as running
        update = SubagentUpdate(
            session_id=task.session_id,
            title=None if announced else task.description,
            description=None if announced else task.agent,
            state={"state": "idle", "stopReason": _stop_reason(task)} if ended else {"state": "running"},
            capabilities={"cancel": {}},
        )
        return [SessionUpdateParams(task.parent_session_id, update)]

    def show_asking(self, session_id: SessionId, *, is_asking: bool) -> list[SessionUpdateParams]:
        """Show that a child waits for a person, or that it goes on."""
        parent_id = self._parents.get(session_id)
        if parent_id is None or is_asking == (session_id in self._asking):
            return []
        (self._asking.add if is_asking else self._asking.discard)(session_id)
        task = self._tasks.get(session_id)
        if task is not None and task.status in _CALL_STATUS:
            return []  # its end was shown
        state = "requires_action" if is_asking else "running"
        update = SubagentUpdate(session_id=session_id, state={"state": state}, capabilities={"cancel": {}})
        return [SessionUpdateParams(parent_id, update)]

    def _show_as_call(self, task: BackgroundTask, shown: _ShownTask, *, begins: bool) -> SessionUpdateParams:
        kind = ToolCallBegin if begins else ToolCallChange
        call = kind(
            tool_call_id=f"task-{task.session_id}",
            title=f"{task.description} (@{task.agent})",
            kind="think",
            status=_CALL_STATUS.get(task.status, "in_progress"),
            content=(text_content(shown.text),) if shown.text else (),
            meta={"asyncagents": {"taskId": task.session_id}},
        )
        return SessionUpdateParams(self._root_id, call)


def _stop_reason(task: BackgroundTask) -> str:
    return "cancelled" if task.status == "cancelled" else "end_turn"


def _task_text(task: BackgroundTask) -> str:
    """Describe how far a task is, or how it ended."""
    if task.status == "completed":
        return task.result or "Completed."
    if task.status in _CALL_STATUS:
        return task.error or task.status
    progress = task.progress
    if progress is None:
        return ""
    phase = f"{progress.phase}, place {progress.place}" if progress.place else (progress.phase or "running")
    tools = f"; last: {', '.join(progress.last_tools)}" if progress.last_tools else ""
    return f"{phase}; {progress.tool_calls} tool calls{tools}"
