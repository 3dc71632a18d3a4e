"""Wait until tasks end or want an answer, and report what they do meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

from asyncagents.client.client import Client
from asyncagents.domain.event import (
    PermissionAsked,
    PermissionReplied,
    PromptAnswered,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
    SessionDeleted,
    SessionIdle,
    SessionStatus,
    TaskCancelled,
    TaskCompleted,
    TaskFailed,
)
from asyncagents.domain.id import SessionId
from asyncagents.errors import NotFound, Unavailable
from asyncagents.mcp_server.agent_tasks import AgentTasks
from asyncagents.mcp_server.view import TaskView

LOOK_SECONDS = 5.0
"""Between two looks if no event comes, and between two reports."""
_TELLING = (
    SessionStatus,
    SessionIdle,
    SessionDeleted,
    PermissionAsked,
    PermissionReplied,
    QuestionAsked,
    QuestionReplied,
    QuestionRejected,
    PromptAnswered,
    TaskCompleted,
    TaskFailed,
    TaskCancelled,
)
"""Events after which a task may have ended, or may want an answer."""

Report: TypeAlias = Callable[[str], Awaitable[None]]


async def wait_for_tasks(
    tasks: AgentTasks, starts: Sequence[str], *, until: int, seconds: float, report: Report
) -> tuple[TaskView, ...]:
    """Wait until `until` of the tasks do not work any more, or for `seconds`; return the views of all.

    A task that wants an answer does not work. `report` is called with a sentence every few seconds.
    """
    now = asyncio.get_running_loop().time
    end, next_report = now() + seconds, now() + LOOK_SECONDS
    found = [await tasks.find(each) for each in starts]
    waited = WaitedTasks(tasks, [each.session.id for each in found])
    await waited.look()
    roots = tuple(dict.fromkeys(each.root.id for each in found))
    async with _follow_changes(await tasks.server.client(), roots) as changed:
        while waited.count_stopped() < until and (left := end - now()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_SECONDS, left)):
                    await changed.wait()
            changed.clear()
            await waited.look()
            if now() >= next_report:
                next_report = now() + LOOK_SECONDS
                await report(waited.describe())
    return waited.views()


class WaitedTasks:
    """The last known views of some tasks."""

    def __init__(self, tasks: AgentTasks, ids: Sequence[SessionId]) -> None:
        self._tasks = tasks
        self._ids = ids
        self._views: dict[SessionId, TaskView] = {}

    async def look(self) -> None:
        """Read the tasks again that worked when they were read last."""
        for task_id in dict.fromkeys(self._ids):
            view = self._views.get(task_id)
            if view is None or view.status == "working":
                self._views[task_id] = await self._tasks.view(task_id)

    def count_stopped(self) -> int:
        """Count the tasks that have ended or want an answer."""
        return sum(view.status != "working" for view in self._views.values())

    def views(self) -> tuple[TaskView, ...]:
        return tuple(self._views[task_id] for task_id in self._ids)

    def describe(self) -> str:
        working = [view for view in self._views.values() if view.status == "working"]
        return working[0].message if len(working) == 1 else f"{len(working)} tasks work"


@asynccontextmanager
async def _follow_changes(client: Client, roots: tuple[SessionId, ...]) -> AsyncIterator[asyncio.Event]:
    """Set an event whenever a task of one of the trees may have ended, or may want an answer."""
    changed = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(_follow_tree(client, root, changed)) for root in roots]
        try:
            yield changed
        finally:
            for reader in readers:
                reader.cancel()


async def _follow_tree(client: Client, root: SessionId, changed: asyncio.Event) -> None:
    try:
        async with client.events(root, tree=True) as events:
            changed.set()  # what happened before the stream began is seen by a look
            async for event in events:
                if isinstance(event, _TELLING):
                    changed.set()
    except (NotFound, Unavailable):
        changed.set()  # the next look raises the error, or finds the server that was started again
