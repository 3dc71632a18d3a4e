"""Tasks, seen and handled over HTTP as `runtime.tasks` does."""

from asyncagents.client.call import Calls, at
from asyncagents.domain.awaited import Awaited
from asyncagents.domain.background_task import BackgroundTask
from asyncagents.domain.board import KindFilter, TaskGroup, TaskPage
from asyncagents.domain.id import SessionId
from asyncagents.domain.served import Stopped
from asyncagents.domain.task import TaskStatus
from asyncagents.domain.why import Why


class Tasks:
    """Get it from a client: `client.tasks`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def get(self, task_id: SessionId) -> BackgroundTask:
        """With what it has done so far."""
        return await self._calls.get(at("v1", "tasks", task_id), BackgroundTask)

    async def list(self, session_id: SessionId, *, live: bool = False) -> tuple[BackgroundTask, ...]:
        """Of the tree of a session, of either kind, the oldest first. `live`: not yet ended.

        Of all sessions: `page`.
        """
        query = {"live": "true"} if live else {}
        return await self._calls.get(
            at("v1", "sessions", session_id, "tasks"), tuple[BackgroundTask, ...], query
        )

    async def page(
        self,
        *,
        kind: KindFilter = "background",
        status: TaskStatus | None = None,
        agent: str | None = None,
        search: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> TaskPage:
        """Of all sessions, the newest first. `search`: a part of the description, in whatever case.

        Background tasks, unless `kind` says otherwise.
        """
        given = {"kind": kind, "status": status, "agent": agent, "search": search}
        query = {name: value for name, value in given.items() if value is not None}
        return await self._calls.get(
            "/v1/tasks", TaskPage, {**query, "limit": str(limit), "offset": str(offset)}
        )

    async def group(self, batch_id: str) -> TaskGroup:
        return await self._calls.get(at("v1", "task-groups", batch_id), TaskGroup)

    async def resume(self, task_id: SessionId, prompt: str, *, key: str | None = None) -> BackgroundTask:
        """Send a follow-up: an ended task begins another run, a live one reads it before its next step."""
        path = at("v1", "tasks", task_id, "resume")
        return await self._calls.post(path, BackgroundTask, {"prompt": prompt}, key=key)

    async def background(self, task_id: SessionId) -> BackgroundTask:
        """Let whoever waits for it go on; a notice will tell of its end."""
        return await self._calls.post(at("v1", "tasks", task_id, "background"), BackgroundTask)

    async def cancel(self, task_id: SessionId, *, key: str | None = None) -> bool:
        """End it with all below it; its parent is told. False: it is durable, but somebody still stops.

        The same key again ends no later run.
        """
        return (await self._calls.post(at("v1", "tasks", task_id, "cancel"), Stopped, key=key)).stopped

    async def cancel_batch(self, batch_id: str, *, key: str | None = None) -> bool:
        """All of a batch that have not ended."""
        path = at("v1", "task-groups", batch_id, "cancel")
        return (await self._calls.post(path, Stopped, key=key)).stopped

    async def awaited(self, session_id: SessionId, *, asks: bool = False) -> tuple[Awaited, ...]:
        """What the tree of a session waits for outside; with `asks` only people, the oldest first."""
        query = {"asks": "true"} if asks else {}
        path = at("v1", "sessions", session_id, "awaited")
        return await self._calls.get(path, tuple[Awaited, ...], query)

    async def why(self, session_id: SessionId) -> Why:
        """Why a session does not move."""
        return await self._calls.get(at("v1", "sessions", session_id, "why"), Why)
