"""`/v1`: tasks, statistics and task events, for dashboards and other readers."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import wraps
from typing import Any, TypeAlias, get_args

from asyncagents.domain.conversation.entry import Entry
from asyncagents.domain.http_shapes import Health, Stopped
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape, encode
from asyncagents.domain.task.board import (
    KINDS,
    BoardSnapshot,
    KindFilter,
    Removed,
    TaskGroup,
    TaskPage,
    TaskQuery,
    TaskStats,
)
from asyncagents.domain.task.task import TaskStatus
from asyncagents.domain.task.view import BackgroundTask, moment
from asyncagents.domain.why import Why
from asyncagents.engine.event.task_stream import News
from asyncagents.engine.runtime.runtime import VERSION
from asyncagents.errors import AsyncAgentsError, Closed
from asyncagents.server.http.body import read
from asyncagents.server.http.messages import Answer, Request, Stream, shown
from asyncagents.server.http.sse import frame, opening
from asyncagents.server.params import KEYED, Query, key, path_id
from asyncagents.server.route import Param, Route, Site

LIMIT, MOST = 50, 200
"""Default and max tasks of a page."""

_STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)
_log = logging.getLogger(__name__)

Following: TypeAlias = AsyncGenerator[News, None]
Answering: TypeAlias = Callable[[Site, Request], Awaitable[Answer]]


class Beat(Shape, frozen=True, kw_only=True):
    """`ts`: ISO 8601."""

    ts: str


def one_at_a_time(handler: Answering) -> Answering:
    @wraps(handler)
    async def looked(site: Site, request: Request) -> Answer:
        async with site.looks:
            return await handler(site, request)

    return looked


async def health(site: Site, request: Request) -> Answer:
    uptime = (site.clock.now() - site.started) / 1000
    count = await site.runtime.board.count()
    return shown(Health(status="ok", uptime=uptime, version=VERSION, task_count=count))


@one_at_a_time
async def stats(site: Site, request: Request) -> Answer:
    return shown(await site.runtime.board.stats())


@one_at_a_time
async def tasks(site: Site, request: Request) -> Answer:
    given = Query(request.query)
    query = TaskQuery(
        kind=_kind(given),
        status=given.one_of("status", _STATUSES),
        agent=given.word("agent"),
        search=given.text("search") or None,
        limit=min(given.number("limit", LIMIT, least=1), MOST),
        offset=given.number("offset", 0, least=0),
    )
    return shown(await site.runtime.board.page(query))


def _kind(given: Query) -> KindFilter:
    return given.one_of("kind", KINDS) or "background"


async def task(site: Site, request: Request) -> Answer:
    return shown(await site.runtime.tasks.get(SessionId(request.params["id"])))


@one_at_a_time
async def logs(site: Site, request: Request) -> Answer:
    """Nothing is masked: access to a task includes everything that it read."""
    task_id = SessionId(request.params["id"])
    await site.runtime.tasks.get(task_id)
    return shown(await site.runtime.messages(task_id))


@one_at_a_time
async def group(site: Site, request: Request) -> Answer:
    return shown(await site.runtime.board.group(request.params["id"]))


async def why(site: Site, request: Request) -> Answer:
    return shown(await site.runtime.tasks.why(SessionId(request.params["id"])))


async def events(site: Site, request: Request) -> Stream:
    """A browser that reconnects sends `Last-Event-ID` and gets a new snapshot; `after` is ignored then."""
    given = Query(request.query)
    after, kind = given.text("after"), _kind(given)
    if request.header("last-event-id"):
        after = None
    following = None if after is None else site.runtime.board.follow(after, kind=kind)

    def beat() -> bytes:
        return frame("heartbeat", encode(Beat(ts=moment(site.clock.now()))))

    return Stream(_frames(site, following, kind), beat, site.silence)


async def _frames(site: Site, following: Following | None, kind: KindFilter) -> AsyncGenerator[bytes, None]:
    """Yield frames until the runtime is closed or cannot read its store; clients reconnect."""
    yield opening()
    try:
        while True:
            if following is None:
                async with site.looks:
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
    Param("limit", f"Max tasks; default {LIMIT}, at most {MOST}", "integer", least=1),
    Param("offset", "Skip this many of the newest tasks", "integer", least=0),
)
_AFTER = Param("after", "`id` of the last known event: send what came after it, without a snapshot")
_EVENTS: tuple[tuple[str, Any], ...] = (
    ("snapshot", BoardSnapshot),
    *((f"task.{what}", BackgroundTask) for what in ("created", "updated", "completed", "error", "cancelled")),
    ("task.removed", Removed),
    ("heartbeat", Beat),
    ("reset", dict[str, Any]),
)


class Resumption(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    prompt: str


async def cancel(site: Site, request: Request) -> Answer:
    return shown(Stopped(stopped=await site.runtime.tasks.cancel(_task_id(request), key=key(request))))


async def resume(site: Site, request: Request) -> Answer:
    said = read(request, Resumption)
    return shown(await site.runtime.tasks.resume(_task_id(request), said.prompt, key=key(request)))


async def background(site: Site, request: Request) -> Answer:
    return shown(await site.runtime.tasks.background(_task_id(request)))


async def cancel_group(site: Site, request: Request) -> Answer:
    batch_id = path_id(request, "id", "batch")
    return shown(Stopped(stopped=await site.runtime.tasks.cancel_batch(batch_id, key=key(request))))


def _task_id(request: Request) -> SessionId:
    return SessionId(path_id(request, "id", "task"))


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v1/health",
        handler=health,
        access="open",
        summary="Check that the server is alive",
        answer=Health,
    ),
    Route(
        method="GET",
        path="/v1/stats",
        handler=stats,
        access="counts",
        summary="Get statistics of background tasks by status and agent",
        answer=TaskStats,
    ),
    Route(
        method="GET",
        path="/v1/tasks",
        handler=tasks,
        access="user",
        summary="List tasks, newest first, by page",
        query=_FILTERS,
        answer=TaskPage,
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/v1/tasks/{id}",
        handler=task,
        access="user",
        summary="Get a task by the id of its session",
        answer=BackgroundTask,
        statuses=(404,),
    ),
    Route(
        method="GET",
        path="/v1/tasks/{id}/logs",
        handler=logs,
        access="user",
        summary="List the messages of a task, oldest first",
        answer=tuple[Entry, ...],
        statuses=(404,),
    ),
    Route(
        method="GET",
        path="/v1/task-groups/{id}",
        handler=group,
        access="user",
        summary="Get a group of tasks that were launched together",
        answer=TaskGroup,
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
        gives="text/event-stream",
        events=_EVENTS,
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/v1/sessions/{id}/why",
        handler=why,
        access="user",
        summary="Explain why a session makes no progress",
        answer=Why,
        statuses=(404,),
    ),
    Route(
        method="POST",
        path="/v1/tasks/{id}/cancel",
        handler=cancel,
        access="token",
        summary="Cancel a task and all below it, and notify its parent; once per Idempotency-Key",
        headers=(KEYED,),
        answer=Stopped,
        statuses=(400, 404, 409),
    ),
    Route(
        method="POST",
        path="/v1/tasks/{id}/resume",
        handler=resume,
        access="token",
        summary="Send a task a follow-up; once per Idempotency-Key",
        headers=(KEYED,),
        body=Resumption,
        answer=BackgroundTask,
        statuses=(400, 404, 409),
    ),
    Route(
        method="POST",
        path="/v1/tasks/{id}/background",
        handler=background,
        access="token",
        summary="Move a task to the background",
        answer=BackgroundTask,
        statuses=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/task-groups/{id}/cancel",
        handler=cancel_group,
        access="token",
        summary="Cancel all live tasks of a group; once per Idempotency-Key",
        headers=(KEYED,),
        answer=Stopped,
        statuses=(400, 404, 409),
    ),
)
