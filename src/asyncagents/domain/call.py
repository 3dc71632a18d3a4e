"""A tool call as the engine keeps it: one row, four states, settled once."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from asyncagents.domain.ask import PermissionRequest, QuestionRequest
from asyncagents.domain.envelope import enclosed
from asyncagents.domain.id import CallId, MessageId, PartId, SessionId
from asyncagents.domain.part import (
    PartTime,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
    ToolRunning,
    ToolState,
    ToolWaiting,
)
from asyncagents.domain.result_file import ResultFile, file_parts, name_files
from asyncagents.domain.text import result_read

Effect: TypeAlias = Literal["none", "idempotent", "once"]
"""What a second run would do: nothing, the same again under the same key, or harm."""

Kind: TypeAlias = Literal["ask", "question", "async", "wait", "task"]
ASKING: frozenset[Kind] = frozenset({"ask", "question"})

IN_DOUBT = (
    "The process stopped while this tool was running, so whether it took effect is unknown. "
    "Check before you do it again."
)
REJECTED = "The user rejected this tool call."
BY_HAND = "by hand"
"""Granted to arguments that a person wrote: whatever they ask for was meant."""
OWN = "own"
"""Granted to a command that a person runs: no rule is asked, and nothing but an abort ends it."""
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
"""A timer of this length or more lets blocking prompts return."""
UNSURE = (
    "The process stopped while this tool was starting its work, so whether it began is unknown; "
    "a result is waited for."
)


class Completed(Struct, frozen=True, tag="completed", omit_defaults=True):
    output: str
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    files: tuple[ResultFile, ...] = ()
    """Images and documents that the model is shown beside the output."""


class Failed(Struct, frozen=True, tag="failed", omit_defaults=True):
    error: str
    metadata: dict[str, Any] = field(default_factory=dict)
    blocks: bool = False
    """A person said no: the turn stops here."""


Result: TypeAlias = Completed | Failed


class Once(Struct, frozen=True, tag="once", omit_defaults=True):
    """Yes, this time; with `input`, to these arguments instead of the model's."""

    input: dict[str, Any] | None = None


class Always(Struct, frozen=True, tag="always"):
    """Yes, and to all of the kind from now on, in this project."""


class Reject(Struct, frozen=True, tag="reject", omit_defaults=True):
    """No. With a message the model may try another way; without one the turn stops."""

    message: str = ""


class Answers(Struct, frozen=True, tag="answers"):
    """One list of chosen or written answers for each question."""

    answers: tuple[tuple[str, ...], ...]


Reply: TypeAlias = Once | Always | Reject | Answers


class Later(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of a call whose result comes later, from outside: kept from its start until long after its end."""

    due: int | None = None
    """When it has failed, unless a result is in."""
    estimated: int | None = None
    """How long it should take, in ms. A hint: it never makes the time shorter."""
    external_ref: str = ""
    """What the other side calls it."""
    webhook_url: str = ""
    """Who is told when it is settled."""
    checked: bool = False
    """Its tool looks at a result before it counts."""


class Requested(Struct, frozen=True, tag="requested"):
    """The step that asked for it is committed; nothing has run."""


class Running(Struct, frozen=True, tag="running", omit_defaults=True):
    """A side effect may be under way, in the run that holds this fence."""

    fence: int
    later: Later | None = None
    """Of an async tool: what the call keeps from here on."""


class Watch(Struct, frozen=True, omit_defaults=True):
    """What a wait waits for: the end of a task, or of any; then the result says what is known of the task."""

    task_id: SessionId
    tool: str
    any: bool = False


class Open(Struct, frozen=True, kw_only=True, tag="open", omit_defaults=True):
    """Nothing runs here: the answer comes from outside, or when it is due."""

    kind: Kind
    since: int
    due: int | None = None
    warn: int | None = None
    """When people are told that it is about to be overdue."""
    warned: bool = False
    on_due: Result = Failed(TIMED_OUT)
    note: str = ""
    """What the tool said before it began to wait; shown to people and to the model."""
    ask: PermissionRequest | None = None
    ask_hash: str = ""
    blocks: bool = True
    """Whether a no without a word ends the turn."""
    question: QuestionRequest | None = None
    who: str = ""
    """Whom it asks, in words: a person, a role, a channel."""
    approval: bool = False
    """Its one question is whether something may be done; the answer is told as a decision."""
    watch: Watch | None = None
    child_waits: bool = False
    """Of a call that waits for tasks: they all wait for the outside alone, so blocking prompts return."""
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    later: Later | None = None
    """What the call keeps from here on."""

    def lapsed(self, now: int) -> bool:
        """A decision counts within its time, whether or not anybody was there to end it."""
        return self.approval and self.due is not None and self.due <= now

    @property
    def next_due(self) -> int | None:
        """When somebody must look at it: to warn, or to end it."""
        return self.due if self.warn is None else self.warn


class Settled(Struct, frozen=True, tag="settled", omit_defaults=True):
    result: Result
    at: int
    expired: bool = False
    """Nobody gave it: its time was over."""


CallState: TypeAlias = Requested | Running | Open | Settled


class Call(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` is ours, unguessable, the effect key of the tool and the pending id people answer to."""

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
    """Who made it: the rules of this agent count."""
    repeats: int = 0
    """How many calls just before it, in the same turn, were the same."""
    written: dict[str, Any] | None = None
    """The model's own arguments, if a person changed them."""
    prepared: bool = False
    """The hooks that come before it have had their word, once."""
    proposed: dict[str, Any] | None = None
    """The model's own arguments, if a hook changed them."""
    effect: Effect = "once"
    started: int | None = None
    granted: tuple[str, ...] = ()
    """Hashes of the asks that were answered with yes."""
    ask_id: str | None = None
    """The last ask or question of this call, and how it was answered."""
    reply: Reply | None = None
    answered_by: str = ""
    """Who answered it, if he said so."""
    asked_before: tuple[str, ...] = ()
    """Earlier asks: each was answered with yes, and then the world had changed."""
    shown_pending: bool = False
    """A request told the model that this call is pending; its result arrives as a later message."""
    compacted: int | None = None
    """When its output was left out of what the model reads."""
    later: Later | None = None
    """None: its result comes from its run, a person or a task."""
    state: CallState = Requested()

    @property
    def of_a_kind(self) -> tuple[str, dict[str, Any]]:
        """What two calls have in common of which one repeats the other."""
        own = self.input if self.proposed is None else self.proposed
        return self.tool, own if self.written is None else self.written

    def to(self, state: CallState) -> "Call":
        """In its next state; what that brings for good is the call's own."""
        if isinstance(state, Running | Open) and state.later is not None:
            return replace(self, state=replace(state, later=None), later=state.later)
        return replace(self, state=state)

    @property
    def own(self) -> bool:
        """Whether a person runs it, with no model in between."""
        return OWN in self.granted

    @property
    def open(self) -> Open | None:
        return self.state if isinstance(self.state, Open) else None

    @property
    def asking(self) -> bool:
        """Whether a person may answer it now."""
        return self.only_asks or (isinstance(self.state, Open) and self.state.question is not None)

    @property
    def only_asks(self) -> bool:
        """Whether nothing but the answer of a person is waited for."""
        return isinstance(self.state, Open) and self.state.kind in ASKING

    @property
    def holding(self) -> bool:
        """Whether the session cannot go on without it."""
        if not isinstance(self.state, Open):
            return False
        return self.only_asks or (self.state.kind == "task" and not self.state.child_waits)

    @property
    def holds_prompts(self) -> bool:
        """Whether blocking prompts stay held while it is open: it waits for a person, a task or a moment."""
        match self.state:
            case Open(kind="task") | Open(kind="wait", watch=Watch()):
                return not self.state.child_waits
            case Open(kind="wait", due=int(due), since=since):
                return due - since < LONG_WAIT_MS
            case _:
                return self.only_asks

    @property
    def settled(self) -> bool:
        return isinstance(self.state, Settled)


def moved(call: Call, state: CallState, now: int) -> Call:
    """A call that was not settled, in its next state; what it asks has an id of its own."""
    match state:
        case Running():
            return replace(call.to(state), started=call.started or now)
        case Open(ask=ask, question=question) if ask or question:
            request = ask or question
            assert request is not None
            before = (*call.asked_before, call.ask_id) if call.ask_id else ()
            asks = replace(call.to(state), ask_id=request.id, asked_before=before)
            return replace(asks, reply=None, answered_by="")
        case Open() | Requested() | Settled():
            return call.to(state)


def render(call: Call) -> ToolPart:
    """The part people see: a pure function of the row, never written from memory."""
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
        case Running():
            return ToolRunning(input=call.input, time=PartTime(start=start))
        case Open(kind="ask" | "question"):
            return ToolRunning(input=call.input, time=PartTime(start=start))
        case Open(kind="task", title=title, metadata=metadata):
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
            return ToolError(input=call.input, error=error, metadata=metadata or None, time=time)


def pending_text(call_id: str, tool: str) -> str:
    """What the model reads in place of a result that is not in yet; it never changes afterwards."""
    return f"This call is still pending ({tool}, {call_id}). Its result will arrive in a later message."


def result_text(call: Call) -> str:
    """What the model reads when the result of a call that was shown as pending arrives.

    It stands where a person's words stand, so no words of ours can be forged in it.
    """
    match call.state:
        case Settled(Completed(output, files=files)):
            words = f"{result_read(output)}\n\n{name_files(files)}" if files else result_read(output)
            return _arrival(call.call_id, call.tool, failed=False) + enclosed(words, files=True)
        case Settled(Failed(error)):
            return _arrival(call.call_id, call.tool, failed=True) + enclosed(result_read(error), files=True)
        case _:
            raise ValueError(f"call {call.id} has no result yet")


def _arrival(call_id: str, tool: str, *, failed: bool) -> str:
    return f"The pending call {call_id} ({tool}) has {'failed' if failed else 'completed'}:\n\n"


class Arrived(Struct, frozen=True):
    """What `result_text` was made of."""

    call_id: str
    tool: str
    result: str
    failed: bool

    @property
    def head(self) -> str:
        """The words before the result."""
        return _arrival(self.call_id, self.tool, failed=self.failed)


def arrived(text: str) -> Arrived | None:
    """The other way round; None: it is another text."""
    line, blank, result = text.partition("\n\n")
    call_id, _, tool = line.removeprefix("The pending call ").rpartition(" (")
    tool, _, how = tool.rpartition(") has ")
    found = Arrived(call_id, tool, result, how == "failed:")
    return found if blank and text.startswith(found.head) else None
