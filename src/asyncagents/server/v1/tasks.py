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
    idempotency_key,
    path_id,
    query_choice,
    query_nonempty_text,
    query_number,
    query_text,
)
from asyncagents.server.route import Param, Routes, ServerContext
from asyncagents.version import VERSION

routes = Routes()

DEFAULT_TASKS, MOST_TASKS = 50, 200
"""Default and max tasks of a page."""

_STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)
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
_log = logging.getLogger(__name__)

BoardEvents: TypeAlias = AsyncGenerator[BoardUpdate, None]
BoardHandler: TypeAlias = Callable[[ServerContext, Request], Awaitable[Response]]


class HeartbeatEvent(Shape, frozen=True, kw_only=True):
    """`ts`: ISO 8601."""

    schema_name: ClassVar[str] = "Beat"

    ts: str


class Resumption(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: str


_EVENTS: tuple[tuple[str, Any], ...] = (
    ("snapshot", BoardSnapshot),
    *((f"task.{what}", BackgroundTask) for what in ("created", "updated", "completed", "error", "cancelled")),
    ("task.removed", TaskRemoved),
    ("heartbeat", HeartbeatEvent),
    ("reset", dict[str, Any]),
)


def one_at_a_time(handler: BoardHandler) -> BoardHandler:
    @wraps(handler)
    async def handle(server: ServerContext, request: Request) -> Response:
        async with server.heavy_reads:
            return await handler(server, request)

    return handle


@routes.get("/v1/health", access="open", response=Health)
async def health(server: ServerContext, request: Request) -> Response:
    """Check that the server is alive."""
    uptime = (server.clock.now() - server.started) / 1000
    count = await server.runtime.board.count()
    return json_response(Health(status="ok", uptime=uptime, version=VERSION, task_count=count))


@routes.get("/v1/stats", access="counts", response=TaskStats)
@one_at_a_time
async def stats(server: ServerContext, request: Request) -> Response:
    """Get statistics of background tasks by status and agent."""
    return json_response(await server.runtime.board.stats())


@routes.get("/v1/tasks", access="user", query=_FILTERS, response=TaskPage)
@one_at_a_time
async def tasks(server: ServerContext, request: Request) -> Response:
    """List tasks, newest first, by page."""
    query = TaskQuery(
        kind=_kind(request),
        status=query_choice(request, "status", _STATUSES),
        agent=query_nonempty_text(request, "agent"),
        search=query_text(request, "search") or None,
        limit=min(query_number(request, "limit", default=DEFAULT_TASKS), MOST_TASKS),
        offset=query_number(request, "offset", default=0, least=0),
    )
    return json_response(await server.runtime.board.page(query))


def _kind(request: Request) -> KindFilter:
    return query_choice(request, "kind", KINDS) or "background"


@routes.get("/v1/tasks/{id}", access="user", response=BackgroundTask)
async def task(server: ServerContext, request: Request) -> Response:
    """Get a task by the id of its session."""
    return json_response(await server.runtime.tasks.get(SessionId(request.params["id"])))


@routes.get("/v1/tasks/{id}/logs", access="user", response=tuple[MessageWithParts, ...])
@one_at_a_time
async def logs(server: ServerContext, request: Request) -> Response:
    """List the messages of a task, oldest first.

    Nothing is masked: access to a task includes everything that it read."""
    task_id = SessionId(request.params["id"])
    await server.runtime.tasks.get(task_id)
    return json_response(await server.runtime.messages(task_id))


@routes.get("/v1/task-groups/{id}", access="user", response=TaskGroup)
@one_at_a_time
async def group(server: ServerContext, request: Request) -> Response:
    """Get a group of tasks that were launched together."""
    return json_response(await server.runtime.board.group(request.params["id"]))


@routes.get(
    "/v1/events",
    access="user",
    query=(_AFTER, _KIND),
    headers=(Param("Last-Event-ID", "Sent by browsers that reconnect: they get a new snapshot"),),
    content_type="text/event-stream",
    events=_EVENTS,
)
async def events(server: ServerContext, request: Request) -> StreamingResponse:
    """Stream a snapshot of tasks, then each change.

    A browser that reconnects sends `Last-Event-ID` and gets a new snapshot; `after` is ignored then."""
    after, kind = query_text(request, "after"), _kind(request)
    if request.header("last-event-id"):
        after = None
    following = None if after is None else server.runtime.board.follow(after, kind=kind)

    def beat() -> bytes:
        return frame("heartbeat", encode(HeartbeatEvent(ts=iso_time(server.clock.now()))))

    return StreamingResponse(_frames(server, following, kind), beat, server.idle_heartbeat_seconds)


@routes.get("/v1/sessions/{id}/why", access="user", response=Why)
async def why(server: ServerContext, request: Request) -> Response:
    """Explain why a session makes no progress."""
    return json_response(await server.runtime.tasks.why(SessionId(request.params["id"])))


async def _frames(
    server: ServerContext, following: BoardEvents | None, kind: KindFilter
) -> AsyncGenerator[bytes, None]:
    """Yield frames until the runtime is closed or cannot read its store; clients reconnect."""
    yield retry_frame()
    try:
        while True:
            if following is None:
                async with server.heavy_reads:
                    board, cursor = await server.runtime.board.snapshot(kind)
                following = server.runtime.board.follow(cursor, kind=kind)
                yield frame("snapshot", encode(board), cursor)
            async with aclosing(following) as updates:
                async for each in updates:
                    if each.type == "reset":
                        break
                    yield frame(each.type, each.body, each.cursor)
            yield frame("reset", b"{}")
            following = None
    except Closed:
        return
    except AsyncAgentsError as error:
        _log.warning("action=end_stream path=/v1/events kind=%s", kind, exc_info=error)


@routes.post("/v1/tasks/{id}/cancel", access="token", key=True, response=AbortResult)
async def cancel(server: ServerContext, request: Request) -> Response:
    """Cancel a task and all below it, and notify its parent; once per Idempotency-Key."""
    return json_response(
        AbortResult(
            stopped=await server.runtime.tasks.cancel(_task_id(request), key=idempotency_key(request))
        )
    )


@routes.post("/v1/tasks/{id}/resume", access="token", key=True, body=Resumption, response=BackgroundTask)
async def resume(server: ServerContext, request: Request) -> Response:
    """Send a task a follow-up; once per Idempotency-Key."""
    body = read_body(request, Resumption)
    return json_response(
        await server.runtime.tasks.resume(_task_id(request), body.prompt, key=idempotency_key(request))
    )


@routes.post("/v1/tasks/{id}/background", access="token", response=BackgroundTask, statuses=(409,))
async def background(server: ServerContext, request: Request) -> Response:
    """Move a task to the background."""
    return json_response(await server.runtime.tasks.background(_task_id(request)))


@routes.post("/v1/task-groups/{id}/cancel", access="token", key=True, response=AbortResult)
async def cancel_group(server: ServerContext, request: Request) -> Response:
    """Cancel all live tasks of a group; once per Idempotency-Key."""
    batch_id = path_id(request, "id", "batch")
    return json_response(
        AbortResult(stopped=await server.runtime.tasks.cancel_batch(batch_id, key=idempotency_key(request)))
    )


def _task_id(request: Request) -> SessionId:
    return SessionId(path_id(request, "id", "task"))
