"""What the engine knows of a session when it decides: control columns, open calls, unread input."""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call import Call, Open, Requested, Running
from asyncagents.domain.id import MessageId, OwnerId, RequestId, SessionId
from asyncagents.domain.message import AssistantMessage, Message, ModelRef, UserMessage
from asyncagents.domain.session import Session, Tokens
from asyncagents.domain.status import Busy, Idle, Retry, Status, WaitingAsync

State: TypeAlias = Literal["idle", "ready", "running"]
WANTED = -1
"""No place yet: the context is full, and a summary is asked for before the next step."""
CLAIM_LIMIT = 3


class Control(Struct, frozen=True):
    """The protocol columns of a session row, in the order they are read."""

    id: SessionId
    parent_id: SessionId | None
    root_id: SessionId
    depth: int
    pool: str
    state: State = "idle"
    wake_seq: int = 0
    fence: int = 0
    owner: OwnerId | None = None
    turn: int = 0
    turn_rev: int = 0
    in_turn: bool = False
    cancel_rev: int = 0
    blocked_turn: int = 0
    claims: int = 0
    """Claims since anything last moved forward."""
    positions: int = 0
    """How many messages have a place in the order the model reads."""
    backoff: RequestId | None = None
    """The request that failed and waits for its next try."""
    steps: int = 0
    """How many are complete since a person last spoke."""
    compacting: int = 0
    """The place of a request for a summary that has not been written yet, or `WANTED`."""
    summary: int = 0
    """The place of the newest summary: what lies before it is not read any more, but for the tail."""
    tail: int = 0
    """The place from which messages are kept beside the summary."""
    trace: str | None = None
    """Where its turn stands in a trace, as a traceparent; no write but its own changes it."""

    def woken(self) -> "Control":
        state: State = "ready" if self.state == "idle" else self.state
        return replace(self, wake_seq=self.wake_seq + 1, state=state)

    def claimed(self, owner: OwnerId, *, counts: bool = True) -> "Control":
        claims = self.claims + counts
        return replace(self, state="running", owner=owner, fence=self.fence + 1, claims=claims)

    def progressed(self) -> "Control":
        return replace(self, claims=0) if self.claims else self

    def parked(self) -> "Control":
        return replace(self, state="idle", owner=None, claims=0)

    def rested(self, *, unread: bool) -> "Control":
        """The turn is over; input that came for the next one keeps the session ready."""
        state: State = "ready" if unread else "idle"
        compacting = min(self.compacting, 0)  # who wanted a summary in this turn has been answered
        return replace(
            self, state=state, owner=None, claims=0, in_turn=False, backoff=None, compacting=compacting
        )

    def cancelled(self, *, stranded: int = 0, calls: int = 0) -> bool:
        """A cancel covers the turn it came in and, outside a turn, input it held back and open calls."""
        return self.cancel_rev > self.turn_rev and (self.in_turn or stranded > 0 or calls > 0)

    def in_a_turn(self, rev: int) -> "Control":
        if self.in_turn:
            return self
        return replace(self, in_turn=True, turn=self.turn + 1, turn_rev=rev)


class Lease(Struct, frozen=True):
    """The right to write for a session: void as soon as somebody else has claimed it."""

    session_id: SessionId
    fence: int


class Backoff(Struct, frozen=True):
    """A request that failed and is tried again; or, with attempt 0, one that waits for its first try."""

    request_id: RequestId
    message_id: MessageId
    attempt: int
    next_at: int
    failure: str
    estimate: Tokens = Tokens.zero()
    """What the try was thought to cost before it was made."""


class Snapshot(Struct, frozen=True, kw_only=True):
    """Everything `decide` may look at."""

    control: Control
    info: Session | None = None
    calls: tuple[Call, ...] = ()
    """Calls that are not settled."""
    queued: int = 0
    """Input that waits to be promoted."""
    prompts: int = 0
    """Those of them that want an answer of their own: not what the runtime itself adds to a turn."""
    notices: int = 0
    """Ends of its tasks that it has not been told of, and that wake it."""
    stranded: int = 0
    """Input that an abort held back and whose callers have not been answered."""
    newest: MessageId | None = None
    """The one with the highest id of those that wait to be promoted."""
    last: Message | None = None
    """The newest message the model would see."""
    model: ModelRef | None = None
    """The one that the next step asks."""
    backoff: Backoff | None = None
    now: int = 0
    """When this was true, by the store's clock."""

    @property
    def cancelled(self) -> bool:
        return self.control.cancelled(stranded=self.stranded, calls=len(self.calls))

    @property
    def crash_loop(self) -> bool:
        return self.control.claims > CLAIM_LIMIT

    @property
    def unread(self) -> int:
        """What the model is to be told. Who waits for a task is not told of others meanwhile."""
        waits = any(call.open.watch is not None for call in self.calls if call.open)
        return self.queued if waits else self.queued + self.notices

    @property
    def blocked(self) -> bool:
        return self.control.in_turn and self.control.blocked_turn == self.control.turn

    @property
    def step(self) -> AssistantMessage | None:
        """The last step of this turn, if the turn has one."""
        in_turn = self.control.in_turn
        return self.last if in_turn and isinstance(self.last, AssistantMessage) else None

    @property
    def ran(self) -> bool:
        """What a person ran has ended: a step that no model was asked for, so none says how it ended."""
        return self.step is not None and self.step.finish is None and self.step.error is None

    @property
    def unanswered(self) -> bool:
        """The model has been told something and has not answered: the step that did was cut off."""
        return self.control.in_turn and isinstance(self.last, UserMessage)

    @property
    def answers_earlier(self) -> bool:
        """Whether the last step answers the prompts before it, and what is unread wants another answer.

        What the runtime adds (a reminder, a late result) extends the answer instead.
        """
        final = self.step is not None and is_final(self.step)
        return final and self.queued == self.prompts and self.unread > 0

    @property
    def executing(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls if _runs_under(c, self.control.fence))

    @property
    def abandoned(self) -> tuple[Call, ...]:
        """Started under an older fence: the process that ran them is gone."""
        return tuple(
            c for c in self.calls if isinstance(c.state, Running) and c.state.fence < self.control.fence
        )

    @property
    def requested(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls if isinstance(c.state, Requested))

    @property
    def waiting(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls if c.open)

    @property
    def holding(self) -> tuple[Call, ...]:
        return tuple(c for c in self.calls if c.holding)


def _runs_under(call: Call, fence: int) -> bool:
    return isinstance(call.state, Running) and call.state.fence == fence


def is_final(step: AssistantMessage) -> bool:
    """Whether a step ended without an error, and without calls whose results it wants to see."""
    return step.error is None and step.finish not in (None, "tool-calls")


def waits_outside(control: Control, open_calls: tuple[Call, ...]) -> bool:
    """Whether a parked session waits for the outside alone: then blocking prompts return, here and above."""
    return control.backoff is None and not any(call.holds_prompts for call in open_calls)


def status(control: Control, open_calls: tuple[Call, ...], backoff: Backoff | None = None) -> Status:
    """A session's status, from its rows alone."""
    if backoff is not None:
        return Retry(attempt=max(1, backoff.attempt), message=backoff.failure, next=backoff.next_at)
    if control.state != "idle" or any(call.holding for call in open_calls):
        return Busy()
    waits = [(call, call.state) for call in open_calls if isinstance(call.state, Open)]
    if not waits:
        return Idle()
    first, state = min(waits, key=lambda pair: (pair[1].due is None, pair[1].due or 0, pair[0].id))
    return WaitingAsync(pending_id=first.id, tool=first.tool, since=state.since, timeout=state.due)
