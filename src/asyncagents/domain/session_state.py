"""The state of a session that the engine decides on: control columns, open calls, unread input."""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Call, Open, Requested, Running
from asyncagents.domain.conversation.message import AssistantMessage, Message, ModelRef, UserMessage
from asyncagents.domain.conversation.session import Session, Tokens
from asyncagents.domain.conversation.status import Busy, Idle, Retry, Status, WaitingAsync
from asyncagents.domain.id import MessageId, OwnerId, RequestId, SessionId

ControlState: TypeAlias = Literal["idle", "ready", "running"]
SUMMARY_WANTED = -1
"""Value of `compacting`: the context is full, and a summary is requested before the next step."""
CLAIM_LIMIT = 3
SWEEP_ROWS = 25
"""Rows of each kind per sweep: they hold the write lock for less than 10 ms, unless pages must be read."""
Scope: TypeAlias = Literal["tree", "turn"]
"""`tree`: all descendants of a session. `turn`: only the tasks that its turn waits for."""
RestReason: TypeAlias = Literal["done", "blocked", "error", "aborted", "crash_loop", "ran"]
"""`ran`: a shell command of a person has ended, and no model is asked."""


class Control(Struct, frozen=True):
    """The protocol columns of a session row, in the order they are read."""

    id: SessionId
    parent_id: SessionId | None
    root_id: SessionId
    depth: int
    pool: str
    state: ControlState = "idle"
    wake_seq: int = 0
    fence: int = 0
    owner: OwnerId | None = None
    turn: int = 0
    turn_rev: int = 0
    in_turn: bool = False
    cancel_rev: int = 0
    blocked_turn: int = 0
    claims: int = 0
    """Claims since the session last made progress."""
    positions: int = 0
    """The number of messages with a position in what the model reads."""
    backoff: RequestId | None = None
    """The request that failed and waits for its next try."""
    steps: int = 0
    """Complete steps since the last prompt of a person."""
    compacting: int = 0
    """The position of an unanswered request for a summary, or `SUMMARY_WANTED`."""
    summary: int = 0
    """The position of the newest summary: messages before it are not read, except the tail."""
    tail: int = 0
    """The position from which messages are kept beside the summary."""
    trace: str | None = None
    """The trace of its turn, as a traceparent; only its own write changes it."""

    def after_wake(self) -> "Control":
        state: ControlState = "ready" if self.state == "idle" else self.state
        return replace(self, wake_seq=self.wake_seq + 1, state=state)

    def after_claim(self, owner: OwnerId, *, counts: bool = True) -> "Control":
        claims = self.claims + counts
        return replace(self, state="running", owner=owner, fence=self.fence + 1, claims=claims)

    def after_progress(self) -> "Control":
        return replace(self, claims=0) if self.claims else self

    def after_park(self) -> "Control":
        return replace(self, state="idle", owner=None, claims=0)

    def after_rest(self, *, unread: bool) -> "Control":
        """End the turn; unread input for the next one keeps the session ready."""
        state: ControlState = "ready" if unread else "idle"
        compacting = min(self.compacting, 0)  # a request for a summary in this turn has been answered
        return replace(
            self, state=state, owner=None, claims=0, in_turn=False, backoff=None, compacting=compacting
        )

    def is_cancelled(self, *, stranded: int = 0, calls: int = 0) -> bool:
        """Tell whether a cancel applies: to the turn or, outside a turn, to held input and open calls."""
        return self.cancel_rev > self.turn_rev and (self.in_turn or stranded > 0 or calls > 0)

    def after_turn_start(self, rev: int) -> "Control":
        if self.in_turn:
            return self
        return replace(self, in_turn=True, turn=self.turn + 1, turn_rev=rev)


class Claim(Struct, frozen=True):
    """The right to write for a session; void once the session is claimed again."""

    session_id: SessionId
    fence: int


class Backoff(Struct, frozen=True):
    """A failed request that waits for its next try; with attempt 0, one that waits for its first."""

    request_id: RequestId
    message_id: MessageId
    attempt: int
    next_at: int
    failure: str
    estimate: Tokens = Tokens.zero()
    """The estimated tokens of the try."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """All rows of a session that `decide` reads."""

    control: Control
    info: Session | None = None
    calls: tuple[Call, ...] = ()
    """The unsettled calls."""
    queued: int = 0
    """The number of inputs to promote."""
    prompts: int = 0
    """Those that want an answer of their own, without what the runtime adds to a turn."""
    notices: int = 0
    """The number of undelivered notices that wake the session."""
    stranded: int = 0
    """The number of inputs held back by an abort whose callers have no answer yet."""
    newest: MessageId | None = None
    """The highest message id among the inputs to promote."""
    last: Message | None = None
    """The newest message that the model reads."""
    model: ModelRef | None = None
    """The model of the next step."""
    backoff: Backoff | None = None
    now: int = 0
    """When the rows were read, by the store's clock."""

    @property
    def is_cancelled(self) -> bool:
        return self.control.is_cancelled(stranded=self.stranded, calls=len(self.calls))

    @property
    def in_crash_loop(self) -> bool:
        return self.control.claims > CLAIM_LIMIT

    @property
    def unread(self) -> int:
        """Count the input and notices to promote; while a call waits for a task, notices are not counted."""
        waits = any(call.open.watch is not None for call in self.calls if call.open)
        return self.queued if waits else self.queued + self.notices

    @property
    def is_blocked(self) -> bool:
        return self.control.in_turn and self.control.blocked_turn == self.control.turn

    @property
    def step(self) -> AssistantMessage | None:
        """The last step of this turn, if the turn has one."""
        in_turn = self.control.in_turn
        return self.last if in_turn and isinstance(self.last, AssistantMessage) else None

    @property
    def ended_person_run(self) -> bool:
        """Whether a command that a person ran has ended: a step without a model request has no finish."""
        return self.step is not None and self.step.finish is None and self.step.error is None

    @property
    def is_unanswered(self) -> bool:
        """Whether promoted input has no answer because its step was cut off."""
        return self.control.in_turn and isinstance(self.last, UserMessage)

    @property
    def answers_earlier(self) -> bool:
        """Whether the last step answers the earlier prompts, and the unread input wants another answer.

        Input that the runtime adds (a reminder, a late result) extends the answer instead.
        """
        final = self.step is not None and is_final(self.step)
        return final and self.queued == self.prompts and self.unread > 0

    @property
    def executing_calls(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls if _runs_under(c, self.control.fence))

    @property
    def abandoned_calls(self) -> tuple[Call, ...]:
        """Calls started under an older fence: the process that ran them is gone."""
        return tuple(
            c for c in self.calls if isinstance(c.state, Running) and c.state.fence < self.control.fence
        )

    @property
    def requested_calls(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls if isinstance(c.state, Requested))

    @property
    def open_calls(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls if c.open)

    @property
    def blocking_calls(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls if c.blocks_session)


def _runs_under(call: Call, fence: int) -> bool:
    return isinstance(call.state, Running) and call.state.fence == fence


def is_final(step: AssistantMessage) -> bool:
    """Tell whether a step ended without an error and without calls."""
    return step.error is None and step.finish not in (None, "tool-calls")


def waits_outside(control: Control, open_calls: tuple[Call, ...]) -> bool:
    """Tell whether a parked session waits for the outside only: blocking prompts then return, also above."""
    return control.backoff is None and not any(call.holds_prompts for call in open_calls)


def session_status(control: Control, open_calls: tuple[Call, ...], backoff: Backoff | None = None) -> Status:
    """Derive the status of a session from its rows."""
    if backoff is not None:
        return Retry(attempt=max(1, backoff.attempt), message=backoff.failure, next=backoff.next_at)
    if control.state != "idle" or any(call.blocks_session for call in open_calls):
        return Busy()
    waits = [(call, call.state) for call in open_calls if isinstance(call.state, Open)]
    if not waits:
        return Idle()
    first, state = min(waits, key=lambda pair: (pair[1].due is None, pair[1].due or 0, pair[0].id))
    return WaitingAsync(pending_id=first.id, tool=first.tool, since=state.since, timeout=state.due)
