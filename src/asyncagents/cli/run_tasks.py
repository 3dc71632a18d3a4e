"""Renders a line for each task that is launched, resumed or ended."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from asyncagents.cli.screen import Line, one_line
from asyncagents.cli.task_words import took, tools_text
from asyncagents.config.system import SystemClock
from asyncagents.domain.background_task import BackgroundTask
from asyncagents.domain.event import (
    Event,
    TaskCancelled,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskUpdated,
)
from asyncagents.domain.id import SessionId
from asyncagents.domain.task import LIVE
from asyncagents.domain.task_fact import ENDED_BY

Point: TypeAlias = tuple[int, bool]
"""The number of a task's run, and whether it has ended."""


def task_of(event: Event) -> BackgroundTask | None:
    match event:
        case TaskCreated() | TaskUpdated() | TaskCompleted() | TaskFailed() | TaskCancelled():
            return event.task
        case _:
            return None


class TaskLines:
    """Renders each launch and end once, however many events report it."""

    def __init__(self) -> None:
        self._known: dict[SessionId, Point] = {}

    def know(self, tasks: Iterable[BackgroundTask]) -> None:
        """Mark tasks as shown."""
        for task in tasks:
            self._known[task.session_id] = _point(task)

    def take(self, task: BackgroundTask) -> Iterator[Line]:
        before, now = self._known.get(task.session_id), _point(task)
        if before is not None and now <= before:
            return
        self._known[task.session_id] = now
        if before is None or now[0] > before[0]:
            yield Line(f"{_named(task)} {'resumed' if task.resume_count else 'launched'}, {task.session_id}")
        if task.status not in LIVE:
            yield Line(f"{_named(task)} {_ending(task)}")


def _point(task: BackgroundTask) -> Point:
    return task.resume_count, task.status not in LIVE


def _named(task: BackgroundTask) -> str:
    return f'task "{one_line(task.description, 60)}" ({one_line(task.agent, 40)})'


def _ending(task: BackgroundTask) -> str:
    after = took(task, SystemClock().now())
    match task.status:
        case "error":
            return f"failed after {after}: {one_line(task.error or 'no reason given')}"
        case "cancelled":
            by = f": {ENDED_BY[task.ended_by]}" if task.ended_by else ""
            return f"cancelled after {after}{by}"
        case _:
            return f"completed after {after}, {tools_text(task)}"
