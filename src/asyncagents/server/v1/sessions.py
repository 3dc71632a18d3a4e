"""`/v1/sessions`: state, tree, tasks, open calls and abort of sessions; and the event cursor."""

from typing import Literal

from asyncagents.domain.call.call import Call
from asyncagents.domain.call.waiting import OpenCall
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.status import Status
from asyncagents.domain.http_shapes import AbortResult, AnswerResult, FeedPosition, SessionState
from asyncagents.domain.shape import Shape
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import (
    LIMIT_PARAM,
    MOST_SESSIONS,
    idempotency_key,
    message_id,
    named_directory,
    query_flag,
    query_number,
    session_id,
)
from asyncagents.server.route import DIRECTORY_HEADER_PARAM, Param, Routes, ServerContext

routes = Routes()

LONGEST_WAIT = 60.0
_ROOTS = Param("directory", "Absolute path; default: sessions of all directories")


class Abort(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scope`: "turn" spares background tasks. `seconds`: how long to wait for the runs to stop."""

    scope: Literal["tree", "turn"] = "tree"
    seconds: float = 5.0


@routes.get("/v1/cursor", access="token", response=FeedPosition)
async def get_cursor(server: ServerContext, request: Request) -> Response:
    """Get the current event cursor, to resume a stream from later."""
    return json_response(FeedPosition(cursor=await server.runtime.cursor()))


@routes.get(
    "/v1/sessions/{id}/awaited",
    access="token",
    query=(Param("asks", "Only asks, oldest first, each with its lineage", "boolean"),),
    response=tuple[OpenCall, ...],
)
async def list_awaited(server: ServerContext, request: Request) -> Response:
    """List the calls of a session tree that wait for people or results."""
    return json_response(
        await server.runtime.tasks.list_awaited(session_id(request), asks=query_flag(request, "asks"))
    )


@routes.get(
    "/v1/sessions",
    access="token",
    query=(_ROOTS, LIMIT_PARAM),
    headers=(DIRECTORY_HEADER_PARAM,),
    response=tuple[Session, ...],
)
async def roots(server: ServerContext, request: Request) -> Response:
    """List root sessions, newest first."""
    limit = query_number(request, "limit", default=100, most=MOST_SESSIONS)
    return json_response(
        await server.runtime.roots(named_directory(request, beneath=server.directory), limit=limit)
    )


@routes.get(
    "/v1/sessions/{id}",
    access="token",
    query=(Param("prefix", "Accept an unambiguous prefix of the id", "boolean"),),
    response=SessionState,
)
async def state(server: ServerContext, request: Request) -> Response:
    """Get a session with its state."""
    runtime, named = server.runtime, session_id(request)
    session = await (runtime.find_session(named) if query_flag(request, "prefix") else runtime.session(named))
    root_id = await runtime.root_of(session.id)
    return json_response(
        SessionState(
            session=session,
            root_id=root_id,
            status=await runtime.status(session.id),
            at_work=await runtime.at_work(root_id),
            is_run=await runtime.is_running(session.id),
            trouble=str(runtime.trouble) if runtime.trouble is not None else None,
        )
    )


@routes.get("/v1/sessions/{id}/tree", access="token", response=tuple[Session, ...])
async def tree(server: ServerContext, request: Request) -> Response:
    """List all sessions of a session's tree, root first."""
    found, ahead = [], [await server.runtime.session(await server.runtime.root_of(session_id(request)))]
    while ahead:
        session = ahead.pop()
        found.append(session)
        ahead += await server.runtime.children(session.id)
    return json_response(found)


@routes.get("/v1/sessions/{id}/statuses", access="token", response=dict[str, Status])
async def statuses(server: ServerContext, request: Request) -> Response:
    """Get the statuses of all non-idle sessions of a session's tree."""
    return json_response(await server.runtime.statuses(await server.runtime.root_of(session_id(request))))


@routes.get(
    "/v1/sessions/{id}/tasks",
    access="token",
    query=(Param("live", "Only tasks that have not ended", "boolean"),),
    response=tuple[BackgroundTask, ...],
)
async def tasks(server: ServerContext, request: Request) -> Response:
    """List the tasks of a session's tree, oldest first."""
    session = await server.runtime.session(session_id(request))
    return json_response(await server.runtime.tasks.list(session.id, live=query_flag(request, "live")))


@routes.get("/v1/sessions/{id}/calls", access="token", response=tuple[Call, ...])
async def calls(server: ServerContext, request: Request) -> Response:
    """List the open calls of a session."""
    session = await server.runtime.session(session_id(request))
    return json_response(await server.runtime.open_calls(session.id))


@routes.post("/v1/sessions/{id}/abort", access="token", key=True, body=Abort, response=AbortResult)
async def abort(server: ServerContext, request: Request) -> Response:
    """Abort a session and all below it, or its turn; once per Idempotency-Key."""
    wanted = read_body(request, Abort)
    if not 0 <= wanted.seconds <= LONGEST_WAIT:
        raise InvalidInput(f"seconds must be from 0 to {LONGEST_WAIT:.0f}")
    done = await server.runtime.abort(
        session_id(request), seconds=wanted.seconds, scope=wanted.scope, key=idempotency_key(request)
    )
    return json_response(AbortResult(stopped=done))


@routes.get("/v1/messages/{messageID}/answer", access="token", response=AnswerResult)
async def answer_to(server: ServerContext, request: Request) -> Response:
    """Get the message that answered a prompt, if there is one."""
    return json_response(AnswerResult(answer=await server.runtime.answer_to(message_id(request))))
