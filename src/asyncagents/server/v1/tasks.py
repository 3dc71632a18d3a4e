"""`/v1`: tasks, statistics and task events, for dashboards and other readers."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import wraps
from typing import Any, ClassVar, TypeAlias, get_args

from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.http_shapes import AbortResult, Health
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape, encode
from asyncagents.domain.task.board import (
    KINDS,
    BoardSnapshot,
    KindFilter,
    TaskGroup,
    TaskPage,
    TaskQuery,
    TaskRemoved,
    TaskStats,
)
from asyncagents.domain.task.task import TaskStatus
from asyncagents.domain.task.view import BackgroundTask, iso_time
from asyncagents.domain.why import Why
from asyncagents.engine.event.task_stream import BoardUpdate
from asyncagents.errors import AsyncAgentsError, Closed
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, StreamingResponse, json_response
from asyncagents.server.http.sse import frame, retry_frame
from asyncagents.server.params import (
    KEY_PARAM,
    idempotency_key,
    path_id,
    query_choice,
    query_nonempty_text,
    query_number,
    query_text,
)
from asyncagents.server.route import Param, Route, ServerContext
from asyncagents.version import VERSION

DEFAULT_TASKS, MOST_TASKS = 50, 200
"""Default and max tasks of a page."""

_STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)
_log = logging.getLogger(__name__)

BoardEvents: TypeAlias = AsyncGenerator[BoardUpdate, None]
BoardHandler: TypeAlias = Callable[[ServerContext, Request], Awaitable[Response]]


class HeartbeatEvent(Shape, frozen=True, kw_only=True):
    """`ts`: ISO 8601."""

    schema_name: ClassVar[str] = "Beat"

    ts: str


def one_at_a_time(handler: BoardHandler) -> BoardHandler:
    @wraps(handler)
    async def handle(site: ServerContext, request: Request) -> Response:
        async with site.heavy_reads:
            return await handler(site, request)

    return handle


async def health(site: ServerContext, request: Request) -> Response:
    uptime = (site.clock.now() - site.started) / 1000
    count = await site.runtime.board.count()
    return json_response(Health(status="ok", uptime=uptime, version=VERSION, task_count=count))


@one_at_a_time
async def stats(site: ServerContext, request: Request) -> Response:
    return json_response(await site.runtime.board.stats())


@one_at_a_time
async def tasks(site: ServerContext, request: Request) -> Response:
    query = TaskQuery(
        kind=_kind(request),
        status=query_choice(request, "status", _STATUSES),
        agent=query_nonempty_text(request, "agent"),
        search=query_text(request, "search") or None,
        limit=min(query_number(request, "limit", default=DEFAULT_TASKS), MOST_TASKS),
        offset=query_number(request, "offset", default=0, least=0),
    )
    return json_response(await site.runtime.board.page(query))


def _kind(request: Request) -> KindFilter:
    return query_choice(request, "kind", KINDS) or "background"


async def task(site: ServerContext, request: Request) -> Response:
    return json_response(await site.runtime.tasks.get(SessionId(request.params["id"])))


@one_at_a_time
async def logs(site: ServerContext, request: Request) -> Response:
    """Nothing is masked: access to a task includes everything that it read."""
    task_id = SessionId(request.params["id"])
    await site.runtime.tasks.get(task_id)
    return json_response(await site.runtime.messages(task_id))


@one_at_a_time
async def group(site: ServerContext, request: Request) -> Response:
    return json_response(await site.runtime.board.group(request.params["id"]))


async def why(site: ServerContext, request: Request) -> Response:
    return json_response(await site.runtime.tasks.why(SessionId(request.params["id"])))


async def events(site: ServerContext, request: Request) -> StreamingResponse:
    """A browser that reconnects sends `Last-Event-ID` and gets a new snapshot; `after` is ignored then."""
    after, kind = query_text(request, "after"), _kind(request)
    if request.header("last-event-id"):
        after = None
    following = None if after is None else site.runtime.board.follow(after, kind=kind)

    def beat() -> bytes:
        return frame("heartbeat", encode(HeartbeatEvent(ts=iso_time(site.clock.now()))))

    return StreamingResponse(_frames(site, following, kind), beat, site.idle_heartbeat_seconds)


async def _frames(
    site: ServerContext, following: BoardEvents | None, kind: KindFilter
) -> AsyncGenerator[bytes, None]:
    """Yield frames until the runtime is closed or cannot read its store; clients reconnect."""
    yield retry_frame()
    try:
        while True:
            if following is None:
                async with site.heavy_reads:
                    board, cursor = await site.runtime.board.snapshot(kind)
                following = site.runtime.board.follow(cursor, kind=kind)
                yield frame("snapshot", encode(board), cursor)
            async with aclosing(following) as news:
                async for each in news:
                    if each.type == "reset":
                        break
                    yield frame(each.type, each.body, each.cursor)
            yield frame("reset", b"{}")
            following = None
    except Closed:
        return
    except AsyncAgentsError as error:
        _log.warning("action=end_stream path=/v1/events kind=%s", kind, exc_info=error)


_KIND = Param(
    "kind",
    "Default: background tasks; `sync`: tasks whose parent waits for the latest run; `all`: both",
    choices=KINDS,
)
_FILTERS = (
    _KIND,
    Param("status", "Only tasks of this status", choices=_STATUSES),
    Param("agent", "Only tasks of this agent", least=1),
    Param("search", "Only descriptions that contain this, ignoring case"),
    Param("limit", f"Max tasks; default {DEFAULT_TASKS}, at most {MOST_TASKS}", "integer", least=1),
    Param("offset", "Skip this many of the newest tasks", "integer", least=0),
)
_AFTER = Param("after", "`id` of the last known event: send what came after it, without a snapshot")
_EVENTS: tuple[tuple[str, Any], ...] = (
    ("snapshot", BoardSnapshot),
    *((f"task.{what}", BackgroundTask) for what in ("created", "updated", "completed", "error", "cancelled")),
    ("task.removed", TaskRemoved),
    ("heartbeat", HeartbeatEvent),
    ("reset", dict[str, Any]),
)


class Resumption(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: str


async def cancel(site: ServerContext, request: Request) -> Response:
    return json_response(
        AbortResult(stopped=await site.runtime.tasks.cancel(_task_id(request), key=idempotency_key(request)))
    )


async def resume(site: ServerContext, request: Request) -> Response:
    said = read_body(request, Resumption)
    return json_response(
        await site.runtime.tasks.resume(_task_id(request), said.prompt, key=idempotency_key(request))
    )


async def background(site: ServerContext, request: Request) -> Response:
    return json_response(await site.runtime.tasks.background(_task_id(request)))


async def cancel_group(site: ServerContext, request: Request) -> Response:
    batch_id = path_id(request, "id", "batch")
    return json_response(
        AbortResult(stopped=await site.runtime.tasks.cancel_batch(batch_id, key=idempotency_key(request)))
    )


def _task_id(request: Request) -> SessionId:
    return SessionId(path_id(request, "id", "task"))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v1/health",
        handler=health,
        access="open",
        summary="Check that the server is alive",
        response=Health,
    ),
    Route(
        method="GET",
        path="/v1/stats",
        handler=stats,
        access="counts",
        summary="Get statistics of background tasks by status and agent",
        response=TaskStats,
    ),
    Route(
        method="GET",
        path="/v1/tasks",
        handler=tasks,
        access="user",
        summary="List tasks, newest first, by page",
        query=_FILTERS,
        response=TaskPage,
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/v1/tasks/{id}",
        handler=task,
        access="user",
        summary="Get a task by the id of its session",
        response=BackgroundTask,
        statuses=(404,),
    ),
    Route(
        method="GET",
        path="/v1/tasks/{id}/logs",
        handler=logs,
        access="user",
        summary="List the messages of a task, oldest first",
        response=tuple[MessageWithParts, ...],
        statuses=(404,),
    ),
    Route(
        method="GET",
        path="/v1/task-groups/{id}",
        handler=group,
        access="user",
        summary="Get a group of tasks that were launched together",
        response=TaskGroup,
        statuses=(404,),
    ),
    Route(
        method="GET",
        path="/v1/events",
        handler=events,
        access="user",
        summary="Stream a snapshot of tasks, then each change",
        query=(_AFTER, _KIND),
        headers=(Param("Last-Event-ID", "Sent by browsers that reconnect: they get a new snapshot"),),
        content_type="text/event-stream",
        events=_EVENTS,
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/v1/sessions/{id}/why",
        handler=why,
        access="user",
        summary="Explain why a session makes no progress",
        response=Why,
        statuses=(404,),
    ),
    Route(
        method="POST",
        path="/v1/tasks/{id}/cancel",
        handler=cancel,
        access="token",
        summary="Cancel a task and all below it, and notify its parent; once per Idempotency-Key",
        headers=(KEY_PARAM,),
        response=AbortResult,
        statuses=(400, 404, 409),
    ),
    Route(
        method="POST",
        path="/v1/tasks/{id}/resume",
        handler=resume,
        access="token",
        summary="Send a task a follow-up; once per Idempotency-Key",
        headers=(KEY_PARAM,),
        body=Resumption,
        response=BackgroundTask,
        statuses=(400, 404, 409),
    ),
    Route(
        method="POST",
        path="/v1/tasks/{id}/background",
        handler=background,
        access="token",
        summary="Move a task to the background",
        response=BackgroundTask,
        statuses=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/task-groups/{id}/cancel",
        handler=cancel_group,
        access="token",
        summary="Cancel all live tasks of a group; once per Idempotency-Key",
        headers=(KEY_PARAM,),
        response=AbortResult,
        statuses=(400, 404, 409),
    ),
)
