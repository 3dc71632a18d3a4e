"""Tasks: child sessions that work for a parent, from the launch to the end of the last run."""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.conversation.session import Session, Tokens
from asyncagents.domain.id import CallId, MessageId, SessionId

TaskStatus: TypeAlias = Literal["running", "completed", "error", "cancelled", "resumed"]
EndedBy: TypeAlias = Literal["user", "parent", "deadline", "shutdown", "crash"]
Phase: TypeAlias = Literal["queued", "waiting", "streaming", "tool"]
TaskKind: TypeAlias = Literal["sync", "background"]
"""`sync`: the parent waits for the latest run. `background`: the parent continues meanwhile."""
LIVE: frozenset[TaskStatus] = frozenset({"running", "resumed"})


class TaskError(Struct, frozen=True):
    """`name`: the name of a message failure, such as `APIError` or `MessageAbortedError`."""

    name: str
    message: str


class Progress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a child has done in the current run, counted from its rows."""

    tool_calls: int = 0
    by_name: dict[str, int] = {}
    last_tools: tuple[str, ...] = ()
    """The newest last."""
    updated: int = 0
    phase: Phase = "waiting"
    place: int | None = None
    """The place in the queue, from 1."""
    tokens: Tokens = Tokens.zero()
    cost: float = 0.0


class Account(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Totals of one run, counted by the runtime."""

    finish: str = ""
    """The finish reason of the last step; empty if there was none."""
    tool_calls: int = 0
    by_name: dict[str, int] = {}
    last_tools: tuple[str, ...] = ()
    tokens: Tokens = Tokens.zero()
    cost: float = 0.0
    ms: int = 0
    """The duration of the run."""


class Totals(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sums over several runs of a task."""

    tool_calls: int = 0
    by_name: dict[str, int] = {}
    tokens: Tokens = Tokens.zero()
    cost: float = 0.0
    ms: int | None = 0
    """The duration of all runs; None if it is unknown for some."""


class FollowUp(Struct, frozen=True):
    """A follow-up that the child has not read yet."""

    message_id: MessageId
    prompt: str
    at: int


class Task(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` is the child's session id. A run begins with the launch or a resume and ends once."""

    id: SessionId
    parent_id: SessionId
    """The session that launched it and gets its notices."""
    message_id: MessageId
    """The message of the parent that launched it."""
    parent_agent: str
    agent: str
    description: str
    prompt: str
    batch: str
    """The batch: shared by all tasks launched in one turn of the parent."""
    created: int
    background: bool = True
    """Whether the parent continues meanwhile."""
    forked: bool = False
    crowd: int = 20
    """Max sessions below one root that work at once."""
    longest: int | None = None
    """Max duration of a run, in ms."""
    due: int | None = None
    """The deadline of this run."""
    calls: tuple[CallId, ...] = ()
    """Calls of the parent that the end of this run settles."""
    run: int = 0
    began: int = 0
    """When this run began."""
    resumes: int = 0
    follow: FollowUp | None = None
    status: TaskStatus = "running"
    ended: int | None = None
    ended_by: EndedBy | None = None
    result: str | None = None
    """The final text of the child; empty if it wrote none."""
    error: TaskError | None = None
    account: Account | None = None
    """Totals of the last ended run."""
    base: Account = Account()
    """The session's totals when this run began."""
    earlier: Totals | None = None
    """Sums over the runs before this one."""
    retrieved: int | None = None
    gone: bool = False
    """Whether its session was deleted; the task remains."""

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def kind(self) -> TaskKind:
        """The kind of the latest run; a run that was moved to the background is `background` from then on."""
        return "background" if self.background else "sync"


class TaskOutcome(Struct, frozen=True, kw_only=True):
    """How a run ended: its status, with a result or an error."""

    status: TaskStatus
    result: str | None = None
    error: TaskError | None = None
    ended_by: EndedBy | None = None


class TaskEnd(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of one run, as its notice reports it."""

    id: SessionId
    run: int
    description: str
    agent: str
    batch: str
    status: TaskStatus
    ms: int
    resumes: int = 0
    """0: the first run; else the number of the resume."""
    result: str | None = None
    error: TaskError | None = None
    ended_by: EndedBy | None = None


def end_run(task: Task, outcome: TaskOutcome, account: Account, now: int) -> Task:
    """End the run of a live task and keep its totals, whatever happens to the child later."""
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


def task_end(task: Task) -> TaskEnd:
    """Build the end of the latest run, for its notice."""
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


class RunBaseline(Struct, frozen=True):
    """Totals at the start of a run: those of the session, and the sums over earlier runs."""

    base: Account
    earlier: Totals


def resume_run(
    task: Task, follow: FollowUp, call_id: CallId | None, before: RunBaseline | None = None
) -> Task:
    """Add a follow-up: an ended task begins another run, a live one reads it before its next step."""
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
    """Return the batch id of a turn of the parent."""
    return f"bat_{parent_id.removeprefix('ses_')}_{turn}"


class TaskWithProgress(Struct, frozen=True):
    """A task and its progress; None: it has ended, and its account holds the numbers."""

    task: Task
    progress: Progress | None


class Launcher(Struct, frozen=True):
    """The launching session, and how many sessions of its tree work or wait for a place."""

    info: Session
    turn: int
    crowd: int
