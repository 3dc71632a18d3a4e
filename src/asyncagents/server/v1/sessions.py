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
    DIRECTORY_HEADER_PARAM,
    KEY_PARAM,
    LIMIT_PARAM,
    MOST_SESSIONS,
    idempotency_key,
    message_id,
    named_directory,
    query_flag,
    query_number,
    session_id,
)
from asyncagents.server.route import Param, Route, ServerContext


async def get_cursor(site: ServerContext, request: Request) -> Response:
    return json_response(FeedPosition(cursor=await site.runtime.cursor()))


async def list_awaited(site: ServerContext, request: Request) -> Response:
    return json_response(
        await site.runtime.tasks.list_awaited(session_id(request), asks=query_flag(request, "asks"))
    )


LONGEST_WAIT = 60.0


class Abort(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scope`: "turn" spares background tasks. `seconds`: how long to wait for the runs to stop."""

    scope: Literal["tree", "turn"] = "tree"
    seconds: float = 5.0


async def roots(site: ServerContext, request: Request) -> Response:
    limit = query_number(request, "limit", default=100, most=MOST_SESSIONS)
    return json_response(
        await site.runtime.roots(named_directory(request, beneath=site.directory), limit=limit)
    )


async def state(site: ServerContext, request: Request) -> Response:
    runtime, named = site.runtime, session_id(request)
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


async def tree(site: ServerContext, request: Request) -> Response:
    found, ahead = [], [await site.runtime.session(await site.runtime.root_of(session_id(request)))]
    while ahead:
        session = ahead.pop()
        found.append(session)
        ahead += await site.runtime.children(session.id)
    return json_response(found)


async def statuses(site: ServerContext, request: Request) -> Response:
    return json_response(await site.runtime.statuses(await site.runtime.root_of(session_id(request))))


async def tasks(site: ServerContext, request: Request) -> Response:
    session = await site.runtime.session(session_id(request))
    return json_response(await site.runtime.tasks.list(session.id, live=query_flag(request, "live")))


async def calls(site: ServerContext, request: Request) -> Response:
    session = await site.runtime.session(session_id(request))
    return json_response(await site.runtime.open_calls(session.id))


async def answer_to(site: ServerContext, request: Request) -> Response:
    return json_response(AnswerResult(answer=await site.runtime.answer_to(message_id(request))))


async def abort(site: ServerContext, request: Request) -> Response:
    wanted = read_body(request, Abort)
    if not 0 <= wanted.seconds <= LONGEST_WAIT:
        raise InvalidInput(f"seconds must be from 0 to {LONGEST_WAIT:.0f}")
    done = await site.runtime.abort(
        session_id(request), seconds=wanted.seconds, scope=wanted.scope, key=idempotency_key(request)
    )
    return json_response(AbortResult(stopped=done))


_AT = "/v1/sessions/{id}"
_ROOTS = Param("directory", "Absolute path; default: sessions of all directories")

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v1/cursor",
        handler=get_cursor,
        access="token",
        summary="Get the current event cursor, to resume a stream from later",
        response=FeedPosition,
    ),
    Route(
        method="GET",
        path="/v1/sessions/{id}/awaited",
        handler=list_awaited,
        access="token",
        summary="List the calls of a session tree that wait for people or results",
        query=(Param("asks", "Only asks, oldest first, each with its lineage", "boolean"),),
        response=tuple[OpenCall, ...],
        statuses=(400, 404),
    ),
    Route(
        method="GET",
        path="/v1/sessions",
        handler=roots,
        access="token",
        summary="List root sessions, newest first",
        query=(_ROOTS, LIMIT_PARAM),
        headers=(DIRECTORY_HEADER_PARAM,),
        response=tuple[Session, ...],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path=_AT,
        handler=state,
        access="token",
        summary="Get a session with its state",
        query=(Param("prefix", "Accept an unambiguous prefix of the id", "boolean"),),
        response=SessionState,
        statuses=(400, 404),
    ),
    Route(
        method="GET",
        path=f"{_AT}/tree",
        handler=tree,
        access="token",
        summary="List all sessions of a session's tree, root first",
        response=tuple[Session, ...],
        statuses=(404,),
    ),
    Route(
        method="GET",
        path=f"{_AT}/statuses",
        handler=statuses,
        access="token",
        summary="Get the statuses of all non-idle sessions of a session's tree",
        response=dict[str, Status],
        statuses=(404,),
    ),
    Route(
        method="GET",
        path=f"{_AT}/tasks",
        handler=tasks,
        access="token",
        summary="List the tasks of a session's tree, oldest first",
        query=(Param("live", "Only tasks that have not ended", "boolean"),),
        response=tuple[BackgroundTask, ...],
        statuses=(400, 404),
    ),
    Route(
        method="GET",
        path=f"{_AT}/calls",
        handler=calls,
        access="token",
        summary="List the open calls of a session",
        response=tuple[Call, ...],
        statuses=(404,),
    ),
    Route(
        method="POST",
        path=f"{_AT}/abort",
        handler=abort,
        access="token",
        summary="Abort a session and all below it, or its turn; once per Idempotency-Key",
        headers=(KEY_PARAM,),
        body=Abort,
        response=AbortResult,
        statuses=(400, 404, 409),
    ),
    Route(
        method="GET",
        path="/v1/messages/{messageID}/answer",
        handler=answer_to,
        access="token",
        summary="Get the message that answered a prompt, if there is one",
        response=AnswerResult,
        statuses=(404,),
    ),
)
