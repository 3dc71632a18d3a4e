"""A task as MCP tools show it: a root session of the client's project, or a task below one."""

from typing import Literal, TypeAlias

from msgspec import Struct

from asyncagents.domain.call.call import Open
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import describe_failure
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.why import Why, WhyCode

ViewStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""The states of a task in the MCP extension for tasks."""
_ENDS: dict[WhyCode, ViewStatus] = {
    "idle": "completed",
    "aborted": "cancelled",
    "held": "cancelled",
    "failed": "failed",
    "blocked": "failed",
    "crash_loop": "failed",
    "unreadable": "failed",
}
"""What a session at rest has come to; with any other code it is still at work."""
AT_REST = frozenset(_ENDS)


class AskView(Struct, frozen=True, kw_only=True):
    """An open ask. `kind` permission: a person decides it; question: it wants answers of anyone."""

    id: str
    kind: Literal["permission", "question"]
    task_id: str
    text: str
    questions: tuple[str, ...] = ()
    options: tuple[tuple[str, ...], ...] = ()
    """For each question the answers to choose from."""


class TaskView(Struct, frozen=True, kw_only=True):
    """`message`: one sentence that says what the task waits for, or how it ended."""

    task_id: str
    status: ViewStatus
    message: str
    description: str
    agent: str | None = None
    result: str | None = None
    """The answer, once the task is completed."""
    error: str | None = None
    asks: tuple[AskView, ...] = ()
    created_at: int = 0
    """In ms since the epoch."""
    updated_at: int = 0

    @property
    def is_live(self) -> bool:
        return self.status in ("working", "input_required")


def task_status(code: WhyCode, *, asks: bool) -> ViewStatus:
    """Return the status of a session that `why` explains; `asks`: its tree has open asks."""
    status = _ENDS.get(code, "working")
    return "input_required" if asks and status == "working" else status


def describe_task(
    session: Session, why: Why, asks: tuple[WaitingCall, ...], answer: MessageWithParts | None
) -> TaskView:
    """Build the view of a session. `answer`: its last message of the agent, if it was read."""
    status = task_status(why.code, asks=bool(asks))
    failure = answer.info.error if answer is not None and isinstance(answer.info, AssistantMessage) else None
    if why.code == "held" and answer is not None and failure is None:
        status = "completed"  # a message that waits for the next prompt came after the answer
    is_over = status in ("completed", "failed", "cancelled")
    return TaskView(
        task_id=session.id,
        status=status,
        message=why.sentence,
        description=session.title,
        agent=session.agent,
        result=answer.text if status == "completed" and answer is not None else None,
        error=": ".join(describe_failure(failure)) if is_over and failure is not None else None,
        asks=tuple(view for each in asks if (view := describe_ask(each)) is not None),
        created_at=session.time.created,
        updated_at=session.time.updated,
    )


def describe_ask(waiting: WaitingCall) -> AskView | None:
    """Build the view of an ask; None: the call waits for no person any more."""
    call = waiting.call
    if call.ask_id is None or call.open is None:
        return None
    place = _describe_place(waiting)
    if (ask := call.open.ask) is not None:
        subject = f"{ask.permission} {', '.join(ask.patterns)}".strip()
        text = f"{place}{call.tool} asks for permission: {subject}"
        return AskView(id=call.ask_id, kind="permission", task_id=call.session_id, text=text)
    if (request := call.open.question) is None:
        return None
    who = f" of {call.open.who}" if call.open.who else ""
    return AskView(
        id=call.ask_id,
        kind="permission" if wants_person(call.open) else "question",
        task_id=call.session_id,
        text=f"{place}{call.tool} wants {'an approval' if call.open.approval else 'answers'}{who}",
        questions=tuple(each.question for each in request.questions),
        options=tuple(tuple(option.label for option in each.options) for each in request.questions),
    )


def _describe_place(waiting: WaitingCall) -> str:
    """Name the tasks on the way to the one that asks."""
    below = " › ".join(each.title for each in waiting.lineage[1:])
    return f"{below}: " if below else ""


def wants_person(state: Open) -> bool:
    """Tell whether an ask must be decided by a person: a permission, an approval, or one that names who."""
    return state.ask is not None or state.approval or bool(state.who)
