"""The task board: pages, groups, statistics and the snapshot that a board starts with."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal, TypeAlias, get_args

from msgspec import Struct, field

from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape
from asyncagents.domain.task.task import LIVE, Task, TaskKind, TaskStatus
from asyncagents.domain.task.view import BackgroundTask

STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)
KindFilter: TypeAlias = Literal["background", "sync", "all"]
KINDS: tuple[KindFilter, ...] = get_args(KindFilter)
NEWEST_ENDED = 200
"""Max ended tasks in a snapshot."""


class TaskQuery(Struct, frozen=True, kw_only=True):
    """Filters of a task page; None matches every task. `search`: a part of the description, ignoring case.

    By default a board shows background tasks only.
    """

    kind: KindFilter = "background"
    status: TaskStatus | None = None
    agent: str | None = None
    search: str | None = None
    limit: int = 50
    offset: int = 0


class TaskPage(Shape, frozen=True, kw_only=True):
    """A page of tasks, newest first. `total`: the number of tasks on all pages."""

    tasks: tuple[BackgroundTask, ...]
    total: int
    limit: int
    offset: int


class GroupStats(Shape, frozen=True, kw_only=True):
    """Statistics of the background tasks of a group. `running` includes resumed tasks.

    `completion_rate`: from 0 to 1; 0 if the group has no background task.
    `total_tool_calls`: of all runs. `duration`: milliseconds from the first launch to the last end, or to now
    while a task runs.
    """

    completed: int
    running: int
    error: int
    cancelled: int
    total: int
    completion_rate: float
    total_tool_calls: int
    duration: int


class TaskGroup(Shape, frozen=True, kw_only=True):
    """The tasks of a batch, oldest first, sync tasks included."""

    group_id: str = field(name="groupId")
    tasks: tuple[BackgroundTask, ...]
    stats: GroupStats


class Durations(Shape, frozen=True, kw_only=True):
    """From launch to end, in milliseconds, of the tasks that have ended; 0 if none has."""

    avg: int
    max: int
    min: int


class TaskStats(Shape, frozen=True, kw_only=True):
    """Statistics of background tasks. `by_status` has every status, `by_agent` only agents with tasks."""

    by_status: dict[TaskStatus, int]
    by_agent: dict[str, int]
    duration: Durations
    total_tasks: int
    active_tasks: int


class BoardSnapshot(Shape, frozen=True, kw_only=True):
    """All active tasks and the latest ended ones, newest first; `truncated` if more have ended."""

    tasks: tuple[BackgroundTask, ...]
    stats: TaskStats
    truncated: bool = False


class TaskRemoved(Shape, frozen=True, kw_only=True):
    """A task that was removed from the board."""

    schema_name: ClassVar[str] = "Removed"

    session_id: SessionId


class TaskSum(Struct, frozen=True):
    """Sums over the tasks of one status and agent. Times, in ms, are of ended tasks only."""

    status: str
    agent: str
    count: int
    ended: int
    ms: int
    longest: int | None
    shortest: int | None


def task_group(batch_id: str, members: Sequence[tuple[Task, BackgroundTask]], now: int) -> TaskGroup:
    """Build the group of a batch: all of its tasks, with statistics of those in the background."""
    counted = [(task, shown) for task, shown in members if task.kind == "background"]
    stats = _group_stats(counted, now)
    return TaskGroup(group_id=batch_id, tasks=tuple(shown for _, shown in members), stats=stats)


def _group_stats(members: Sequence[tuple[Task, BackgroundTask]], now: int) -> GroupStats:
    tasks = [task for task, _ in members]
    count = {status: sum(task.status == status for task in tasks) for status in STATUSES}
    first = min((task.created for task in tasks), default=0)
    last = max((now if task.ended is None else task.ended for task in tasks), default=0)
    return GroupStats(
        completed=count["completed"],
        running=count["running"] + count["resumed"],
        error=count["error"],
        cancelled=count["cancelled"],
        total=len(tasks),
        completion_rate=count["completed"] / len(tasks) if tasks else 0.0,
        total_tool_calls=sum(map(_tool_calls, (shown for _, shown in members))),
        duration=max(0, last - first),
    )


def _tool_calls(shown: BackgroundTask) -> int:
    """Count the tool calls of all runs of a task."""
    counted = shown.totals or shown.progress
    return counted.tool_calls if counted else 0


def kind_of_filter(kind: KindFilter) -> TaskKind | None:
    """Translate a filter for the store; None: both kinds."""
    return None if kind == "all" else kind


def task_stats(sums: Iterable[TaskSum]) -> TaskStats:
    by_status: dict[TaskStatus, int] = dict.fromkeys(STATUSES, 0)
    by_agent: dict[str, int] = {}
    known = [(status, each) for each in sums for status in STATUSES if each.status == status]
    for status, each in known:
        by_status[status] += each.count
        by_agent[each.agent] = by_agent.get(each.agent, 0) + each.count
    ended = sum(each.ended for _, each in known)
    duration = Durations(
        avg=round(sum(each.ms for _, each in known) / ended) if ended else 0,
        max=max((each.longest for _, each in known if each.longest is not None), default=0),
        min=min((each.shortest for _, each in known if each.shortest is not None), default=0),
    )
    return TaskStats(
        by_status=by_status,
        by_agent=dict(sorted(by_agent.items())),
        duration=duration,
        total_tasks=sum(by_status.values()),
        active_tasks=sum(by_status[status] for status in STATUSES if status in LIVE),
    )
