"""A task as clients see it."""

from datetime import UTC, datetime

from msgspec import field

from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.shape import Shape
from asyncagents.domain.task import EndedBy, Phase, Progress, Task, TaskStatus

_LAST = 253_402_300_799_999
"""No calendar goes further."""


class TaskProgress(Shape, frozen=True, kw_only=True):
    """`phase` and `place` are a live task's only."""

    tool_calls: int
    tool_calls_by_name: dict[str, int]
    last_tools: tuple[str, ...]
    last_update: str
    phase: Phase | None = None
    place: int | None = None


class PendingResume(Shape, frozen=True, kw_only=True):
    """A follow-up that waits until the child reads it."""

    prompt: str
    queued_at: str


class BackgroundTask(Shape, frozen=True, kw_only=True):
    """Times are ISO 8601."""

    session_id: SessionId
    parent_session_id: SessionId
    parent_message_id: MessageId
    parent_agent: str
    description: str
    prompt: str
    agent: str
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
    ended_by: EndedBy | None = None


def background_task(task: Task, progress: Progress | None) -> BackgroundTask:
    """`progress`: what a live task has done so far; an ended one has its account."""
    return BackgroundTask(
        session_id=task.id,
        parent_session_id=task.parent_id,
        parent_message_id=task.message_id,
        parent_agent=task.parent_agent,
        description=task.description,
        prompt=task.prompt,
        agent=task.agent,
        status=task.status,
        started_at=moment(task.created),
        batch_id=task.batch,
        resume_count=task.resumes,
        is_forked=task.forked,
        completed_at=_moment_of(task.ended),
        result_retrieved_at=_moment_of(task.retrieved),
        result=task.result,
        error=f"{task.error.name}: {task.error.message}" if task.error else None,
        pending_resume=_pending(task),
        progress=_live(progress) if task.live else _accounted(task),
        ended_by=task.ended_by,
    )


def _pending(task: Task) -> PendingResume | None:
    follow = task.follow
    return PendingResume(prompt=follow.prompt, queued_at=moment(follow.at)) if follow else None


def _live(progress: Progress | None) -> TaskProgress | None:
    if progress is None:
        return None
    return TaskProgress(
        tool_calls=progress.tool_calls,
        tool_calls_by_name=progress.by_name,
        last_tools=progress.last_tools,
        last_update=moment(progress.updated),
        phase=progress.phase,
        place=progress.place,
    )


def _accounted(task: Task) -> TaskProgress | None:
    account = task.account
    if account is None:
        return None
    return TaskProgress(
        tool_calls=account.tool_calls,
        tool_calls_by_name=account.by_name,
        last_tools=account.last_tools,
        last_update=moment(task.created if task.ended is None else task.ended),
    )


def _moment_of(ms: int | None) -> str | None:
    return None if ms is None else moment(ms)


def moment(ms: int) -> str:
    """`2026-11-16T09:40:00.123Z`."""
    seconds, rest = divmod(min(ms, _LAST), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"
