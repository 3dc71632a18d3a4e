"""Tool calls: one row with four states, settled once."""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from asyncagents.domain.call.ask import PermissionRequest, QuestionRequest
from asyncagents.domain.call.result_file import ResultFile, file_parts
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.conversation.part import (
    PartTime,
    ToolCompleted,
    ToolFailed,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
    ToolWaiting,
)
from asyncagents.domain.id import CallId, MessageId, PartId, SessionId

Effect: TypeAlias = Literal["none", "idempotent", "once"]
"""What a second run does: nothing, the same under the same effect key, or harm."""

OpenKind: TypeAlias = Literal["ask", "question", "async", "wait", "task"]
ASKING_KINDS: frozenset[OpenKind] = frozenset({"ask", "question"})

IN_DOUBT = (
    "The process stopped while this tool was running, so whether it took effect is unknown. "
    "Check before you do it again."
)
REJECTED = "The user rejected this tool call."
WRITTEN_BY_PERSON = "by hand"
"""Grant of a call whose arguments a person wrote: it is not asked about."""
RUN_BY_PERSON = "own"
"""Grant of a command that a person runs: no rules apply, and only an abort ends it."""
EDITED = "The user changed the arguments of this call before approving it; it ran as shown."
REJECTED_TOO = "Not run: the user rejected another tool call of this turn."
ABORTED = "Tool execution aborted"
TIMED_OUT = "Tool execution timed out"
BROKEN_INPUT = (
    "The arguments of this call are not valid JSON, so it never ran; call it again with valid ones."
)
NEVER_RAN = "The step was cut off before it was complete; this call never ran."
STEP_LIMIT = "Not run: the agent may take no more steps in this turn."
WAIT_OVER = "The wait is over."
WAIT_ENDED = "The wait ended early: new input arrived."
CANCELLED = "cancelled"
LONG_WAIT_MS = 60_000
"""Blocking prompts return while a call waits for a timer of at least this length."""
START_UNSURE = (
    "The process stopped while this tool was starting its work, so whether it began is unknown; "
    "a result is waited for."
)


class Completed(Struct, frozen=True, tag="completed", omit_defaults=True):
    """The result of a call that succeeded."""

    output: str
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    files: tuple[ResultFile, ...] = ()
    """Images and documents shown to the model with the output."""


class Failed(Struct, frozen=True, tag="failed", omit_defaults=True):
    """The result of a call that failed; the model reads `error`."""

    error: str
    metadata: dict[str, Any] = field(default_factory=dict)
    blocks: bool = False
    """Whether a person rejected the call, which ends the turn."""


Result: TypeAlias = Completed | Failed


class Once(Struct, frozen=True, tag="once", omit_defaults=True):
    """Allow this call; with `input`, with these arguments instead of the model's."""

    input: dict[str, Any] | None = None


class Always(Struct, frozen=True, tag="always"):
    """Allow this call, and from now on in this project all that match the ask's patterns."""


class Reject(Struct, frozen=True, tag="reject", omit_defaults=True):
    """Reject this call. With a message the model goes on; without one the turn ends."""

    message: str = ""


class Answers(Struct, frozen=True, tag="answers"):
    """One list of chosen or written answers for each question."""

    answers: tuple[tuple[str, ...], ...]


Reply: TypeAlias = Once | Always | Reject | Answers


class AsyncState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an async call keeps from its start until long after it is settled."""

    schema_name: ClassVar[str] = "Later"
    due: int | None = None
    """The deadline: the call fails if it has no result by then."""
    estimated: int | None = None
    """Expected duration in ms. A hint: it never shortens the deadline."""
    external_ref: str = ""
    """The external system's id of the work."""
    webhook_url: str = ""
    """The address of the webhook that is sent when the call is settled."""
    checked: bool = False
    """Whether its tool validates a result before the call is settled."""
    server_task: ServerTask | None = None
    """The task of an MCP server that brings the result."""


class Requested(Struct, frozen=True, tag="requested"):
    """The step that made the call is committed; the tool has not run."""


class Running(Struct, frozen=True, tag="running", omit_defaults=True):
    """The tool may be running, in the run that holds this fence."""

    fence: int
    later: AsyncState | None = None
    """For an async tool: the state that the call keeps from here on."""
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    """For an observed call: what its agent shows of it, as its title."""


class WaitFor(Struct, frozen=True, omit_defaults=True):
    """The task whose end a wait is for, or any task; the result then describes that task."""

    schema_name: ClassVar[str] = "Watch"
    task_id: SessionId
    tool: str
    any: bool = False


class Open(Struct, frozen=True, kw_only=True, tag="open", omit_defaults=True):
    """No code runs: the result comes from outside, or from the deadline."""

    kind: OpenKind
    since: int
    due: int | None = None
    warn: int | None = None
    """When the warning is sent that the deadline is near."""
    warned: bool = False
    on_due: Result = Failed(TIMED_OUT)
    note: str = ""
    """The tool's note for people and the model while the call is open."""
    ask: PermissionRequest | None = None
    ask_hash: str = ""
    blocks: bool = True
    """Whether a rejection without a message ends the turn."""
    question: QuestionRequest | None = None
    who: str = ""
    """The person, role or channel that is asked, as free text."""
    approval: bool = False
    """Whether its one question is an approval; the answer is then rendered as a decision."""
    watch: WaitFor | None = None
    child_waits: bool = False
    """For a call that waits for tasks: all of them only wait for the outside, so blocking prompts return."""
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    later: AsyncState | None = None
    """The state that an async call keeps from here on."""
    fence: int = 0
    """For an observed call: the fence of the run in which its agent asked."""

    def has_lapsed(self, now: int) -> bool:
        """Tell whether an approval is past its deadline, even if no sweep has expired it yet."""
        return self.approval and self.due is not None and self.due <= now

    @property
    def next_due(self) -> int | None:
        """The next time at which the call must be warned about or expired."""
        return self.due if self.warn is None else self.warn


class Settled(Struct, frozen=True, tag="settled", omit_defaults=True):
    result: Result
    at: int
    expired: bool = False
    """Whether the deadline settled it."""


CallState: TypeAlias = Requested | Running | Open | Settled


class Call(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One use of a tool. `id` is unguessable: the tool's effect key and the pending id of the result."""

    id: CallId
    session_id: SessionId
    message_id: MessageId
    part_id: PartId
    call_id: str
    tool: str
    input: dict[str, Any]
    turn: int
    created: int
    agent: str = ""
    """The agent that made the call; its rules apply."""
    observed: bool = False
    """Whether an external agent executes it: it is recorded here, and no tool of ours runs for it."""
    repeats: int = 0
    """The number of equal calls directly before it in the same turn."""
    written: dict[str, Any] | None = None
    """The model's own arguments, if a person changed them."""
    prepared: bool = False
    """Whether the `tool.execute.before` hooks have run."""
    proposed: dict[str, Any] | None = None
    """The model's own arguments, if a hook changed them."""
    effect: Effect = "once"
    started: int | None = None
    granted: tuple[str, ...] = ()
    """Hashes of the asks that were allowed."""
    ask_id: str | None = None
    """The last ask or question of this call; `reply` is its answer."""
    reply: Reply | None = None
    answered_by: str = ""
    """The person who answered, if known."""
    asked_before: tuple[str, ...] = ()
    """Earlier asks, each allowed before the plan changed and had to be asked again."""
    shown_pending: bool = False
    """Whether the model has read that this call is pending; its result then arrives in a later message."""
    compacted: int | None = None
    """When its output was pruned from what the model reads."""
    later: AsyncState | None = None
    """None: the call is not one of an async tool."""
    state: CallState = Requested()

    @property
    def repeat_key(self) -> tuple[str, dict[str, Any]]:
        """The tool and the model's own arguments; equal for a repeated call."""
        own = self.input if self.proposed is None else self.proposed
        return self.tool, own if self.written is None else self.written

    def with_state(self, state: CallState) -> "Call":
        """Return the call in another state; the state's `later` moves to the call."""
        if isinstance(state, Running | Open) and state.later is not None:
            return replace(self, state=replace(state, later=None), later=state.later)
        return replace(self, state=state)

    @property
    def is_run_by_person(self) -> bool:
        """Whether a person runs it, without a model."""
        return RUN_BY_PERSON in self.granted

    @property
    def open(self) -> Open | None:
        return self.state if isinstance(self.state, Open) else None

    @property
    def server_task(self) -> ServerTask | None:
        """The task of an MCP server that works for it; None also if that needs nothing more from us."""
        task = self.later.server_task if self.later else None
        return None if task is None or task.over else task

    @property
    def reply_to_send(self) -> Answers | Reject | None:
        """A person's reply to the forms of the server that works on a task for the call."""
        task, state = self.server_task, self.open
        if task is None or not task.requests or state is None or state.question is not None:
            return None
        return self.reply if isinstance(self.reply, Answers | Reject) else None

    @property
    def next_poll_ms(self) -> int | None:
        """How long to wait until the server of its task is asked, or told something; None: it never is."""
        task = self.server_task
        if task is None or (self.open is None and not self.is_settled):
            return None
        at_once = (self.is_settled and not task.cancels) or (self.reply_to_send and not task.failures)
        return 0 if at_once else task.next_poll_ms

    def with_server_task(self, task: ServerTask) -> "Call":
        assert self.later is not None, "a call with a task of a server is a pending call"
        return replace(self, later=replace(self.later, server_task=task))

    @property
    def asking(self) -> bool:
        """Whether a person may answer it now."""
        return self.only_asks or (isinstance(self.state, Open) and self.state.question is not None)

    @property
    def only_asks(self) -> bool:
        """Whether the call waits for a person's answer only."""
        return isinstance(self.state, Open) and self.state.kind in ASKING_KINDS

    @property
    def blocks_session(self) -> bool:
        """Whether the session cannot continue until it is settled."""
        if not isinstance(self.state, Open):
            return False
        return self.only_asks or (self.state.kind == "task" and not self.state.child_waits)

    @property
    def holds_prompts(self) -> bool:
        """Whether blocking prompts wait while it is open: for a person, a task or a short timer."""
        match self.state:
            case Open(kind="task") | Open(kind="wait", watch=WaitFor()):
                return not self.state.child_waits
            case Open(kind="wait", due=int(due), since=since):
                return due - since < LONG_WAIT_MS
            case _:
                return self.only_asks

    @property
    def is_settled(self) -> bool:
        return isinstance(self.state, Settled)


def move_call(call: Call, state: CallState, now: int) -> Call:
    """Move an unsettled call to its next state; an ask or question gives it a new `ask_id`."""
    match state:
        case Running():
            return replace(call.with_state(state), started=call.started or now)
        case Open(ask=ask, question=question) if ask or question:
            request = ask or question
            assert request is not None
            before = (*call.asked_before, call.ask_id) if call.ask_id else ()
            asks = replace(call.with_state(state), ask_id=request.id, asked_before=before)
            return replace(asks, reply=None, answered_by="")
        case Open() | Requested() | Settled():
            return call.with_state(state)


def render(call: Call) -> ToolPart:
    """Render the tool part of a call, as a pure function of its row."""
    return ToolPart(
        id=call.part_id,
        session_id=call.session_id,
        message_id=call.message_id,
        call_id=call.call_id,
        tool=call.tool,
        state=_tool_state(call),
    )


def _tool_state(call: Call) -> ToolState:
    start = call.started or call.created
    match call.state:
        case Requested():
            return ToolPending(input=call.input, raw="")
        case Open(kind="ask" | "question"):
            return ToolRunning(input=call.input, time=PartTime(start=start))
        case Running(title=title, metadata=metadata) | Open(kind="task", title=title, metadata=metadata):
            time = PartTime(start=start)
            return ToolRunning(input=call.input, title=title or None, metadata=metadata or None, time=time)
        case Open(note=note, title=title, metadata=metadata):
            return ToolWaiting(
                input=call.input,
                pending_id=call.id,
                output=note or None,
                title=title or None,
                metadata=metadata or None,
                time=PartTime(start=start),
            )
        case Settled(result, at):
            return _settled_state(call, result, PartTime(start=start, end=at, compacted=call.compacted))


def _settled_state(call: Call, result: Result, time: PartTime) -> ToolState:
    match result:
        case Completed(output, title, metadata, files):
            return ToolCompleted(
                input=call.input,
                output=output,
                title=title,
                metadata=metadata,
                time=time,
                attachments=file_parts(files, call.part_id, call.session_id, call.message_id) or None,
            )
        case Failed(error, metadata):
            return ToolFailed(input=call.input, error=error, metadata=metadata or None, time=time)
