"""Tasks and their transcripts as resources, and notifications of their changes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import (
    INVALID_PARAMS,
    EmptyResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from asyncagents.client.transport import ServerUnreachable
from asyncagents.errors import AsyncAgentsError
from asyncagents.mcp_server.agent_tasks import AgentTasks, FoundTask
from asyncagents.mcp_server.transcript import write_transcript

ROOT = "asyncagents://tasks"
TRANSCRIPT = "transcript"
JSON, TEXT = "application/json", "text/plain"
LISTED = 50
"""Tasks that are listed as resources, the newest ones."""
MOST_SUBSCRIPTIONS = 100
QUIET_SECONDS = 1.0
"""Between two notifications of one resource."""

_log = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]
TasksOf = Callable[[Context], AgentTasks]


def task_uri(task_id: str, *, transcript: bool = False) -> str:
    return f"{ROOT}/{task_id}/{TRANSCRIPT}" if transcript else f"{ROOT}/{task_id}"


def parse_uri(uri: str) -> tuple[str, bool]:
    """Return the id of the task (empty: all tasks), and whether its transcript is meant."""
    head, _, rest = uri.rstrip("/").partition(f"{ROOT}/")
    task_id, _, part = rest.partition("/")
    if (uri.rstrip("/") == ROOT) or (not head and task_id and part in ("", TRANSCRIPT)):
        return task_id, part == TRANSCRIPT
    known = f"{ROOT}, {ROOT}/ID or {ROOT}/ID/{TRANSCRIPT}"
    raise MCPError(INVALID_PARAMS, f"unknown resource {uri[:200]!r}: use {known}", {"uri": uri})


class Followers:
    """Owns the tasks that follow changes for the one client of a connection, by the URI of the resource."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, uri: str, action: Coroutine[Any, Any, None]) -> None:
        """Start to follow. Raises `MCPError` if too many do."""
        if len(self._tasks) >= MOST_SUBSCRIPTIONS:
            action.close()
            raise MCPError(INVALID_PARAMS, f"at most {MOST_SUBSCRIPTIONS} resources can be subscribed to")
        task = self._tasks[uri] = self._group.create_task(action)
        task.add_done_callback(lambda _: self._tasks.pop(uri, None))

    def stop(self, uri: str) -> None:
        if (task := self._tasks.get(uri)) is not None:
            task.cancel()

    def is_followed(self, uri: str) -> bool:
        return uri in self._tasks

    def stop_all(self) -> None:
        for task in list(self._tasks.values()):
            task.cancel()


@asynccontextmanager
async def open_followers(server: object) -> AsyncIterator[Followers]:
    """Open the followers of a server; they end with it."""
    async with asyncio.TaskGroup() as group:
        followers = Followers(group)
        try:
            yield followers
        finally:
            followers.stop_all()


class TaskResources:
    """Handles the requests for resources."""

    def __init__(self, tasks_of: TasksOf) -> None:
        self._tasks_of = tasks_of

    async def list(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        found = await _refuse_errors(self._tasks_of(context).list(limit=LISTED))
        all_tasks = Resource(name="tasks", title="All tasks of this project", uri=ROOT, mime_type=JSON)
        each = [
            Resource(name=view.task_id, title=view.description, uri=task_uri(view.task_id), mime_type=JSON)
            for view in found
        ]
        return ListResourcesResult(resources=[all_tasks, *each])

    async def list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        task, transcript = f"{ROOT}/{{id}}", f"{ROOT}/{{id}}/{TRANSCRIPT}"
        return ListResourceTemplatesResult(
            resource_templates=[
                ResourceTemplate(name="task", title="A task", uri_template=task, mime_type=JSON),
                ResourceTemplate(
                    name="transcript",
                    title="The conversation of a task",
                    uri_template=transcript,
                    mime_type=TEXT,
                ),
            ]
        )

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        task_id, wants_transcript = parse_uri(params.uri)
        tasks = self._tasks_of(context)
        if wants_transcript:
            text = write_transcript(await _refuse_errors(tasks.messages(task_id, limit=1_000)))
        elif task_id:
            text = msgspec.json.encode(await _refuse_errors(tasks.view(task_id))).decode()
        else:
            text = msgspec.json.encode(await _refuse_errors(tasks.list(limit=LISTED))).decode()
        content = TextResourceContents(
            uri=params.uri, mime_type=TEXT if wants_transcript else JSON, text=text
        )
        return ReadResourceResult(contents=[content])

    async def subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        """Notify the client of changes until it unsubscribes or is gone."""
        followers: Followers = context.lifespan_context
        session = context.session
        if not followers.is_followed(params.uri):
            tasks = self._tasks_of(context)
            task_id = await _find_followed(tasks, params.uri)

            async def notify() -> None:
                await session.send_resource_updated(params.uri)

            followers.start(params.uri, follow_task(tasks, task_id, notify))
        return EmptyResult()

    async def unsubscribe(self, context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        followers: Followers = context.lifespan_context
        followers.stop(params.uri)
        return EmptyResult()

    async def listen(
        self, context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Serve a stream of changes on a protocol without subscriptions of a connection."""
        bus, tasks = InMemorySubscriptionBus(), self._tasks_of(context)
        uris = params.notifications.resource_subscriptions or ()
        if len(uris) > MOST_SUBSCRIPTIONS:
            raise MCPError(INVALID_PARAMS, f"at most {MOST_SUBSCRIPTIONS} resources can be subscribed to")
        followed = {uri: await _find_followed(tasks, uri) for uri in uris}
        async with asyncio.TaskGroup() as group:
            followers = [
                group.create_task(follow_task(tasks, task_id, partial(bus.publish, ResourceUpdated(uri=uri))))
                for uri, task_id in followed.items()
            ]
            try:
                return await ListenHandler(bus)(context, params)
            finally:
                for follower in followers:
                    follower.cancel()


async def _find_followed(tasks: AgentTasks, uri: str) -> str:
    """Return the id of the task of a resource that can be followed."""
    task_id, _ = parse_uri(uri)
    if not task_id:
        raise MCPError(INVALID_PARAMS, f"{ROOT} cannot be subscribed to: subscribe to one task", {"uri": uri})
    found: FoundTask = await _refuse_errors(tasks.find(task_id))
    return found.session.id


async def follow_task(tasks: AgentTasks, task_id: str, notify: Callable[[], Awaitable[None]]) -> None:
    """Call `notify` after changes of a task, at most once a second, until the task or the client is gone."""
    try:
        while True:
            try:
                await _follow_stream(tasks, task_id, notify)
            except* ServerUnreachable:
                await asyncio.sleep(QUIET_SECONDS)
                await tasks.server.restore()
                await notify()  # what changed meanwhile is not known
            else:
                return
    except Exception as error:  # noqa: BLE001  the edge of a client: others go on
        _log.debug("task=%s action=follow ended", task_id, exc_info=error)


async def _follow_stream(tasks: AgentTasks, task_id: str, notify: Callable[[], Awaitable[None]]) -> None:
    found = await tasks.find(task_id)
    client = await tasks.server.client()
    changed = asyncio.Event()
    async with (
        client.events(found.session.id, tree=True) as events,
        asyncio.TaskGroup() as group,
    ):
        sender = group.create_task(_notify_changes(changed, notify))
        async for _ in events:
            changed.set()
        sender.cancel()


async def _notify_changes(changed: asyncio.Event, notify: Callable[[], Awaitable[None]]) -> None:
    while True:
        await changed.wait()
        changed.clear()
        await notify()
        await asyncio.sleep(QUIET_SECONDS)


async def _refuse_errors(action: Awaitable[Any]) -> Any:
    """Turn errors into those of the protocol."""
    try:
        return await action
    except AsyncAgentsError as error:
        raise MCPError(INVALID_PARAMS, str(error)) from error
