"""Reading and controlling tasks over HTTP, like `runtime.tasks`."""

from asyncagents.client.json_client import JsonClient, build_path
from asyncagents.domain.call.waiting import OpenCall
from asyncagents.domain.http_shapes import AbortResult
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.board import KindFilter, TaskGroup, TaskPage
from asyncagents.domain.task.task import TaskStatus
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.domain.why import Why


class ClientTasks:
    """`client.tasks`: the tasks of the server."""

    def __init__(self, client: JsonClient) -> None:
        self._http = client

    async def get(self, task_id: SessionId) -> BackgroundTask:
        """Get a task with its progress."""
        return await self._http.get(build_path("v1", "tasks", task_id), BackgroundTask)

    async def list(self, session_id: SessionId, *, live: bool = False) -> tuple[BackgroundTask, ...]:
        """List the tasks of a session's tree, of either kind, oldest first. `live`: only those not ended.

        For the tasks of all sessions use `page`.
        """
        query = {"live": "true"} if live else {}
        return await self._http.get(
            build_path("v1", "sessions", session_id, "tasks"), tuple[BackgroundTask, ...], query
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
        """List tasks of all sessions, newest first. `search`: part of the description, ignoring case.

        `kind`: default background tasks.
        """
        given = {"kind": kind, "status": status, "agent": agent, "search": search}
        query = {name: value for name, value in given.items() if value is not None}
        return await self._http.get(
            "/v1/tasks", TaskPage, {**query, "limit": str(limit), "offset": str(offset)}
        )

    async def group(self, batch_id: str) -> TaskGroup:
        return await self._http.get(build_path("v1", "task-groups", batch_id), TaskGroup)

    async def resume(self, task_id: SessionId, prompt: str, *, key: str | None = None) -> BackgroundTask:
        """Send a follow-up: an ended task begins another run, a live one reads it before its next step."""
        path = build_path("v1", "tasks", task_id, "resume")
        return await self._http.post(path, BackgroundTask, {"prompt": prompt}, key=key)

    async def background(self, task_id: SessionId) -> BackgroundTask:
        """Move a task to the background: its parent continues, and gets a notice when the task ends."""
        return await self._http.post(build_path("v1", "tasks", task_id, "background"), BackgroundTask)

    async def cancel(self, task_id: SessionId, *, key: str | None = None) -> bool:
        """Cancel a task and all below it, and notify its parent. Returns False if a run was still stopping;
        the cancel itself is committed.

        The same key again does not cancel a later run.
        """
        return (
            await self._http.post(build_path("v1", "tasks", task_id, "cancel"), AbortResult, key=key)
        ).stopped

    async def cancel_batch(self, batch_id: str, *, key: str | None = None) -> bool:
        """Cancel all live tasks of a batch."""
        path = build_path("v1", "task-groups", batch_id, "cancel")
        return (await self._http.post(path, AbortResult, key=key)).stopped

    async def list_awaited(self, session_id: SessionId, *, asks: bool = False) -> tuple[OpenCall, ...]:
        """List what a session's tree waits for outside; `asks`: only what people are asked, oldest first."""
        query = {"asks": "true"} if asks else {}
        path = build_path("v1", "sessions", session_id, "awaited")
        return await self._http.get(path, tuple[OpenCall, ...], query)

    async def why(self, session_id: SessionId) -> Why:
        """Explain why a session makes no progress."""
        return await self._http.get(build_path("v1", "sessions", session_id, "why"), Why)
