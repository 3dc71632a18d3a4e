"""A task: a session that works for another one, from its launch to the end of its last run."""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.session import Tokens

TaskStatus: TypeAlias = Literal["running", "completed", "error", "cancelled", "resumed"]
EndedBy: TypeAlias = Literal["user", "parent", "deadline", "shutdown", "crash"]
Phase: TypeAlias = Literal["queued", "waiting", "streaming", "tool"]
TaskKind: TypeAlias = Literal["sync", "background"]
"""Whether the parent waits for the latest run of a task, or goes on meanwhile."""
LIVE: frozenset[TaskStatus] = frozenset({"running", "resumed"})


class TaskError(Struct, frozen=True):
    """`name` as the failures of messages have it, such as `APIError` or `MessageAbortedError`."""

    name: str
    message: str


class Progress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a child has done in this run so far, counted in its rows."""

    tool_calls: int = 0
    by_name: dict[str, int] = {}
    last_tools: tuple[str, ...] = ()
    """The newest last."""
    updated: int = 0
    phase: Phase = "waiting"
    place: int | None = None
    """In the queue, from 1."""
    tokens: Tokens = Tokens.zero()
    cost: float = 0.0


class Account(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run came to: counted by the runtime, whatever the child says of itself."""

    finish: str = ""
    """Of its last step; empty: there was none."""
    tool_calls: int = 0
    by_name: dict[str, int] = {}
    last_tools: tuple[str, ...] = ()
    tokens: Tokens = Tokens.zero()
    cost: float = 0.0
    ms: int = 0
    """How long the run took."""


class Totals(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sums over several runs of a task."""

    tool_calls: int = 0
    by_name: dict[str, int] = {}
    tokens: Tokens = Tokens.zero()
    cost: float = 0.0
    ms: int | None = 0
    """How long the runs took; None: it is not known of all of them."""


class Follow(Struct, frozen=True):
    """A follow-up that the child has not read yet."""

    message_id: MessageId
    prompt: str
    at: int


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` is the child's session, in every run. A run begins with the launch or a resume, and ends once."""

    id: SessionId
    parent_id: SessionId
    """Who launched it, and is told of its end."""
    message_id: MessageId
    """The parent's message that launched it."""
    parent_agent: str
    agent: str
    description: str
    prompt: str
    batch: str
    """Shared by what was launched in one turn of the parent."""
    created: int
    background: bool = True
    """Whether the parent goes on meanwhile."""
    forked: bool = False
    crowd: int = 20
    """How many sessions below one root may work at once."""
    longest: int | None = None
    """How long a run may take, in ms."""
    due: int | None = None
    """When this run is ended if it has not ended by then."""
    calls: tuple[CallId, ...] = ()
    """Calls of the parent that its end settles."""
    run: int = 0
    began: int = 0
    """When this run did."""
    resumes: int = 0
    follow: Follow | None = None
    status: TaskStatus = "running"
    ended: int | None = None
    ended_by: EndedBy | None = None
    result: str | None = None
    """What the child said last; empty if it said nothing."""
    error: TaskError | None = None
    account: Account | None = None
    """Of its last run that ended."""
    base: Account = Account()
    """What its session had come to when this run began."""
    earlier: Totals | None = None
    """Sums over the runs before this one."""
    retrieved: int | None = None
    gone: bool = False
    """Its session was deleted; what is known of the task stays."""

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def kind(self) -> TaskKind:
        """Of its latest run. A run that was moved to the background is of the background from then on."""
        return "background" if self.background else "sync"


class Outcome(Struct, frozen=True, kw_only=True):
    """How a run ends."""

    status: TaskStatus
    result: str | None = None
    error: TaskError | None = None
    ended_by: EndedBy | None = None


class TaskEnd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one run ended, as its parent is told of it later."""

    id: SessionId
    run: int
    description: str
    agent: str
    batch: str
    status: TaskStatus
    ms: int
    resumes: int = 0
    """0: its first run; else which resume it was."""
    result: str | None = None
    error: TaskError | None = None
    ended_by: EndedBy | None = None


def ended(task: Task, outcome: Outcome, account: Account, now: int) -> Task:
    """A run ends once; what it came to is kept, whatever becomes of the child."""
    assert task.live, "it ended before"
    return replace(
        task,
        status=outcome.status,
        ended=now,
        ended_by=outcome.ended_by,
        result=outcome.result,
        error=outcome.error,
        account=replace(account, ms=max(0, now - task.began)),
        base=Account(),
        calls=(),
        follow=None,
        due=None,
    )


def end_of(task: Task) -> TaskEnd:
    """What its parent is told of a run that has ended."""
    assert task.account is not None, "it has ended"
    return TaskEnd(
        id=task.id,
        run=task.run,
        description=task.description,
        agent=task.agent,
        batch=task.batch,
        status=task.status,
        ms=task.account.ms,
        resumes=task.resumes,
        result=task.result,
        error=task.error,
        ended_by=task.ended_by,
    )


class Before(Struct, frozen=True):
    """What a run begins with: what its session has come to by then, and the sums over the runs before."""

    base: Account
    earlier: Totals


def resumed(task: Task, follow: Follow, call_id: CallId | None, before: Before | None = None) -> Task:
    """With a follow-up: an ended task begins another run; a live one reads it before its next step."""
    calls = task.calls if call_id is None else (*task.calls, call_id)
    task = replace(task, status="resumed", resumes=task.resumes + 1, follow=follow, calls=calls)
    if task.ended is None:
        return task
    return replace(
        task,
        run=task.run + 1,
        began=follow.at,
        due=None if task.longest is None else follow.at + task.longest,
        background=call_id is None,
        ended=None,
        ended_by=None,
        result=None,
        error=None,
        base=before.base if before else task.base,
        earlier=before.earlier if before else task.earlier,
        retrieved=None,
    )


def batch_of(parent_id: SessionId, turn: int) -> str:
    """What is launched in one turn belongs together."""
    return f"bat_{parent_id.removeprefix('ses_')}_{turn}"
