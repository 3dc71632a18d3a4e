"""Wait until tasks end or want an answer, and report what they do meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

from msgspec.structs import replace

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
from asyncagents.mcp_server.agent_tasks import AgentTasks, FoundTask
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
    waited = WaitedTasks(tasks, found)
    await waited.look(waited.roots)
    async with _follow_changes(await tasks.server.client(), waited.roots) as changes:
        while waited.count_stopped() < until and (left := end - now()) > 0:
            await waited.look(await changes.wait(min(LOOK_SECONDS, left)) or waited.roots)
            if now() >= next_report:
                next_report = now() + LOOK_SECONDS
                await report(waited.describe())
    return waited.views()


class WaitedTasks:
    """The last known views of some tasks."""

    def __init__(self, tasks: AgentTasks, found: Sequence[FoundTask]) -> None:
        self._tasks = tasks
        self._found = {each.session.id: each for each in found}
        self._views: dict[SessionId, TaskView] = {}

    @property
    def roots(self) -> frozenset[SessionId]:
        return frozenset(each.root.id for each in self._found.values())

    async def look(self, roots: frozenset[SessionId]) -> None:
        """Read the tasks of these trees again that worked when they were read last."""
        for task_id, found in self._found.items():
            view = self._views.get(task_id)
            if view is None:
                self._views[task_id] = await self._tasks.read_view(found)
            elif found.root.id in roots and view.status == "working":
                try:
                    self._views[task_id] = await self._tasks.read_view(found)
                except NotFound:
                    self._views[task_id] = replace(view, status="cancelled", message="It was deleted.")

    def count_stopped(self) -> int:
        """Count the tasks that have ended or want an answer."""
        return sum(view.status != "working" for view in self._views.values())

    def views(self) -> tuple[TaskView, ...]:
        return tuple(self._views[task_id] for task_id in self._found)

    def describe(self) -> str:
        working = [view for view in self._views.values() if view.status == "working"]
        return working[0].message if len(working) == 1 else f"{len(working)} tasks work"


class TreeChanges:
    """The trees in which something happened since the last wait."""

    def __init__(self) -> None:
        self._roots: set[SessionId] = set()
        self._wake = asyncio.Event()

    def add(self, root: SessionId) -> None:
        self._roots.add(root)
        self._wake.set()

    async def wait(self, seconds: float) -> frozenset[SessionId]:
        """Wait for a change, for `seconds` at most, and return the trees that changed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()
        changed, self._roots = frozenset(self._roots), set()
        return changed


@asynccontextmanager
async def _follow_changes(client: Client, roots: frozenset[SessionId]) -> AsyncIterator[TreeChanges]:
    """Collect the trees in which a task may have ended, or may want an answer."""
    changes, failure = TreeChanges(), None
    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(_follow_tree(client, root, changes)) for root in sorted(roots)]
        try:
            yield changes
        except Exception as error:  # noqa: BLE001  raised after the group, which would wrap it
            failure = error
        for reader in readers:
            reader.cancel()
    if failure is not None:
        raise failure


async def _follow_tree(client: Client, root: SessionId, changes: TreeChanges) -> None:
    try:
        async with client.events(root, tree=True) as events:
            changes.add(root)  # what happened before the stream began is seen by a look
            async for event in events:
                if isinstance(event, _TELLING):
                    changes.add(root)
    except (NotFound, Unavailable):
        changes.add(root)  # the next look raises the error, or finds the server that was started again
