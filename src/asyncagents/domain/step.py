"""A step of the model: what starts it, what it left, and what becomes of its calls."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from asyncagents.domain.call.call import Call, CallState, Effect
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import MessageAbortedError
from asyncagents.domain.conversation.message import AssistantMessage, JsonFormat, ModelRef
from asyncagents.domain.conversation.part import Part, RetryPart
from asyncagents.domain.conversation.session import Session, Tokens
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import Event
from asyncagents.domain.fact import Admit, Fact
from asyncagents.domain.id import CallId, MessageId, PartId, RequestId
from asyncagents.domain.session_state import Snapshot
from asyncagents.domain.task.notice import NoticeOptions
from asyncagents.domain.task.task import Task

TASK_TOOL = "task"


class StepInfo(Struct, frozen=True, kw_only=True):
    """Facts about a step that is about to start."""

    agent: str
    number: int
    """Steps since the last prompt of a person, from 1."""
    asked: bool = False
    """Whether a new prompt of a person is promoted with this step."""
    agent_before: str | None = None
    """The agent addressed before; set, as are the todos, only if `asked`."""
    todos: tuple[Todo, ...] = ()


class Reminder(Struct, frozen=True):
    """The reminders of a step, and the id of their message if there is no input to attach them to."""

    message_id: MessageId
    texts: Callable[[StepInfo], tuple[str, ...]]
    """Pure: the texts that the model reads just before such a step."""


class NewSummary(Struct, frozen=True):
    """The ids for an automatic request for a summary, and the model that writes the summary."""

    message_id: MessageId
    part_id: PartId
    model: ModelRef | None = None
    room: int | None = None
    """How many tokens the model can read; None: unknown or unlimited."""


class SubtaskOptions(Struct, frozen=True, kw_only=True):
    """How a step begins subtasks and continues after them."""

    effect: Effect = "once"
    """The effect of the tool."""
    go_on: str = ""
    """What the model reads once the subtasks have ended."""
    message_id: MessageId = MessageId("")
    """The id of that message; it is older than the step's."""


class NewStep(Struct, frozen=True, kw_only=True):
    """A step to start; the run makes the ids because it streams under them."""

    message_id: MessageId
    part_id: PartId
    request_id: RequestId
    since: int
    """The position from which on the run has not read the history yet."""
    reminder: Reminder | None = None
    history_tokens: int = 0
    """Estimated tokens of the history before `since`, the system text and the tools."""
    summary: NewSummary | None = None
    """How to ask for a summary instead, if one is needed."""
    tasking: SubtaskOptions = SubtaskOptions()
    notices: NoticeOptions = NoticeOptions()
    with_lineage: bool = False
    """Whether to read the lineage of the session."""


class OutputFormat(Struct, frozen=True):
    message_id: MessageId
    format: JsonFormat
    tries: int
    """How often the model was asked again; counted in the inbox, so that a crash does not reset it."""

    @property
    def next_key(self) -> str:
        return f"{format_key_prefix(self.message_id)}{self.tries + 1}"


def format_key_prefix(message_id: MessageId) -> str:
    """Return the prefix of the keys of inputs that ask once more for the format of this prompt."""
    return f"format:{message_id}:"


class StartedStep(Struct, frozen=True):
    message: AssistantMessage
    position: int
    turn: int
    number: int
    attempt: int
    tail: tuple[MessageWithParts, ...]
    """The history from `since` on, before this step."""
    shown: frozenset[PartId]
    """The tool parts whose calls are shown to the model as pending."""
    output_format: OutputFormat | None = None
    """The output format that the turn asks for."""
    ancestors: tuple[Session, ...] = ()
    """The lineage above the session, root first, if `with_lineage` was set."""
    system: str = ""
    """The system text of the turn's prompts, beside the agent's instructions."""


class StepEnd(Struct, frozen=True, kw_only=True):
    request_id: RequestId
    message: AssistantMessage
    parts: tuple[Part, ...]
    events: tuple[Event, ...] = ()
    """Events of the parts that were not published yet."""
    calls: tuple[Call, ...] = ()
    tokens: Tokens | None = None
    """What the provider reported; without a report the estimate is charged, and marked as one."""
    has_output: bool = True
    """Whether the model produced output; a request that failed without output and report is free."""
    full: bool = False
    """The context window is full: the step came close to its limit, or the provider refused its length."""
    facts: tuple[Fact, ...] = ()
    """Facts that commit with the step, unless the turn was cancelled."""
    over: Callable[[Snapshot], bool] | None = None
    """Pure predicate: whether the turn ends with this step. None: hooks must be asked first."""
    minds_todos: bool = False
    """Do not end the turn here while todos are left: hooks must be asked first."""
    goes_on: Admit | None = None
    """Input to admit instead of ending the turn with this step; requires `over`."""
    unfinished: str | None = None
    """For a step of an external agent: the error of the calls that it left without a result."""

    @property
    def known_tokens(self) -> Tokens | None:
        """Tokens to charge; None: not known, so the estimate is charged."""
        free = self.message.error is not None and not isinstance(self.message.error, MessageAbortedError)
        return self.tokens or (Tokens.zero() if free and not self.has_output else None)


class StepRetry(Struct, frozen=True, kw_only=True):
    """A step that failed and is tried again; its output is closed, and kept for people."""

    end: StepEnd
    part: RetryPart
    next_at: int


class CallMove(Struct, frozen=True):
    """A call, and the state to which it moves."""

    call_id: CallId
    state: CallState


class PreparedInput(Struct, frozen=True):
    """A call whose hooks have run, and the input they left."""

    call_id: CallId
    input: dict[str, Any]


class OpenItems(Struct, frozen=True, kw_only=True):
    """The open items that a summary must not lose."""

    calls: tuple[Call, ...] = ()
    """Open calls: their results are still to come."""
    todos: tuple[Todo, ...] = ()
    tasks: tuple[Task, ...] = ()
    """Live tasks: their notices are still to come."""
    prompt: str = ""
    """The last prompt of a person, unless it is in the tail."""


class SummaryEnd(Struct, frozen=True, kw_only=True):
    end: StepEnd
    position: int
    tail_id: MessageId | None
    """The first message of the tail; None: there is no tail."""
    note: Callable[[OpenItems], str]
    """Pure: the text that the model reads beside the summary."""
    note_id: PartId
    go_on: str
    """The text that the model reads after the summary, if the turn goes on."""
