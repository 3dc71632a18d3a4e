"""Tasks as clients see them."""

from datetime import UTC, datetime

from msgspec import field

from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.shape import Shape
from asyncagents.domain.task.account import all_runs, is_mixed
from asyncagents.domain.task.task import Account, EndedBy, Phase, Progress, Task, TaskKind, TaskStatus, Totals

_LAST_MS = 253_402_300_799_999
"""The latest time that `datetime` can express."""


class TaskProgress(Shape, frozen=True, kw_only=True):
    """Progress of the latest run. Live tasks have `phase` and `place`, ended ones `duration` (ms)."""

    started_at: str
    tool_calls: int
    tool_calls_by_name: dict[str, int]
    last_tools: tuple[str, ...]
    last_update: str
    tokens: Tokens
    cost: float
    duration: int | None = None
    phase: Phase | None = None
    place: int | None = None


class TaskTotals(Shape, frozen=True, kw_only=True):
    """Sums over all runs of a task. `duration`: ms at work; left out if it is unknown for some run."""

    runs: int
    tool_calls: int
    tool_calls_by_name: dict[str, int]
    tokens: Tokens
    cost: float
    duration: int | None = None


class PendingResume(Shape, frozen=True, kw_only=True):
    """A follow-up that the child has not read yet."""

    prompt: str
    queued_at: str


class BackgroundTask(Shape, frozen=True, kw_only=True):
    """A task as its parent and a dashboard see it. Times are ISO 8601.

    `kind`: of the latest run; the parent waits for a `sync` one. `progress`: of the latest run; `totals`:
    over all runs, if there was more than one. `gone`: its session was deleted.
    """

    session_id: SessionId
    parent_session_id: SessionId
    parent_message_id: MessageId
    parent_agent: str
    description: str
    prompt: str
    agent: str
    kind: TaskKind
    status: TaskStatus
    started_at: str
    batch_id: str = field(name="batchId")
    resume_count: int
    is_forked: bool
    completed_at: str | None = None
    result_retrieved_at: str | None = None
    result: str | None = None
    error: str | None = None
    pending_resume: PendingResume | None = None
    progress: TaskProgress | None = None
    totals: TaskTotals | None = None
    ended_by: EndedBy | None = None
    gone: bool = False


def background_task(task: Task, progress: Progress | None) -> BackgroundTask:
    """Build the view of a task; `progress`: of a live task, an ended one has its account."""
    latest = _account_so_far(progress) if task.live else task.account
    return BackgroundTask(
        session_id=task.id,
        parent_session_id=task.parent_id,
        parent_message_id=task.message_id,
        parent_agent=task.parent_agent,
        description=task.description,
        prompt=task.prompt,
        agent=task.agent,
        kind=task.kind,
        status=task.status,
        started_at=iso_time(task.created),
        batch_id=task.batch,
        resume_count=task.resumes,
        is_forked=task.forked,
        completed_at=_optional_iso_time(task.ended),
        result_retrieved_at=_optional_iso_time(task.retrieved),
        result=task.result,
        error=f"{task.error.name}: {task.error.message}" if task.error else None,
        pending_resume=_pending_resume(task),
        progress=_live_progress(task, progress) if task.live else _ended_progress(task),
        totals=_totals(task, all_runs(task, latest)),
        ended_by=task.ended_by,
        gone=task.gone,
    )


def _pending_resume(task: Task) -> PendingResume | None:
    follow = task.follow
    return PendingResume(prompt=follow.prompt, queued_at=iso_time(follow.at)) if follow else None


def _totals(task: Task, totals: Totals | None) -> TaskTotals | None:
    if totals is None:
        return None
    return TaskTotals(
        runs=task.run + 1,
        tool_calls=totals.tool_calls,
        tool_calls_by_name=totals.by_name,
        tokens=totals.tokens,
        cost=totals.cost,
        duration=None if task.live else totals.ms,
    )


def _account_so_far(progress: Progress | None) -> Account | None:
    if progress is None:
        return None
    return Account(
        tool_calls=progress.tool_calls,
        by_name=progress.by_name,
        tokens=progress.tokens,
        cost=progress.cost,
    )


def _live_progress(task: Task, progress: Progress | None) -> TaskProgress | None:
    if progress is None:
        return None
    return TaskProgress(
        started_at=iso_time(task.began or task.created),
        tool_calls=progress.tool_calls,
        tool_calls_by_name=progress.by_name,
        last_tools=progress.last_tools,
        last_update=iso_time(progress.updated),
        tokens=progress.tokens,
        cost=progress.cost,
        phase=progress.phase,
        place=progress.place,
    )


def _ended_progress(task: Task) -> TaskProgress | None:
    """Return the progress of an ended run; None if an older version stored only the sums of all runs."""
    account = task.account
    if account is None or is_mixed(task):
        return None
    return TaskProgress(
        started_at=iso_time(task.began or task.created),
        tool_calls=account.tool_calls,
        tool_calls_by_name=account.by_name,
        last_tools=account.last_tools,
        last_update=iso_time(task.created if task.ended is None else task.ended),
        tokens=account.tokens,
        cost=account.cost,
        duration=account.ms,
    )


def _optional_iso_time(ms: int | None) -> str | None:
    return None if ms is None else iso_time(ms)


def iso_time(ms: int) -> str:
    """Format a time, as in `2026-11-16T09:40:00.123Z`."""
    seconds, rest = divmod(min(ms, _LAST_MS), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"
