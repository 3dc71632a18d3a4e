"""Asks of sessions: permission requests and questions, and replies to them."""

from typing import Any, ClassVar, Literal

from asyncagents.domain.call.ask import PermissionRequest, QuestionRequest
from asyncagents.domain.call.call import Always, Answers, Call, Once, Reject
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import (
    DIRECTORY_HEADER_PARAM,
    DIRECTORY_PARAM,
    named_directory,
    path_id,
    query_text,
)
from asyncagents.server.route import Param, Route, ServerContext


class PermissionReply(Shape, frozen=True, kw_only=True):
    """`message`: sent to the model with `reject`, so that it can try another way."""

    reply: Literal["once", "always", "reject"]
    message: str | None = None


class QuestionReply(Shape, frozen=True, kw_only=True):
    """For each question the chosen or written answers."""

    answers: tuple[tuple[str, ...], ...]


class AskAnswer(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`reply`: a word, or a list of answers for each question. `by`: the person who answers, as text."""

    schema_name: ClassVar[str] = "Answered"

    reply: str | tuple[tuple[str, ...], ...] | Once | Always | Reject | Answers
    input: dict[str, Any] | None = None
    message: str = ""
    by: str = ""


async def permissions(site: ServerContext, request: Request) -> Response:
    asked = [each.call.open.ask for each in await _open_asks(site, request) if each.call.open]
    return json_response([ask for ask in asked if ask is not None])


async def questions(site: ServerContext, request: Request) -> Response:
    asked = [each.call.open.question for each in await _open_asks(site, request) if each.call.open]
    return json_response([question for question in asked if question is not None])


async def _open_asks(site: ServerContext, request: Request) -> list[WaitingCall]:
    where = named_directory(request, beneath=site.directory)
    return [each for each in await site.runtime.asks() if where in (None, each.lineage[-1].directory)]


async def reply_permission(site: ServerContext, request: Request) -> Response:
    said = read_body(request, PermissionReply)
    if said.message and said.reply != "reject":
        raise InvalidInput("message is only allowed with reject: it tells the model what to do instead")
    await site.runtime.answer(path_id(request, "id", "ask"), said.reply, message=said.message or "")
    return json_response(True)


async def reply_question(site: ServerContext, request: Request) -> Response:
    said = read_body(request, QuestionReply)
    await site.runtime.answer(path_id(request, "id", "ask"), said.answers)
    return json_response(True)


async def reject_question(site: ServerContext, request: Request) -> Response:
    await site.runtime.answer(path_id(request, "id", "ask"), "reject")
    return json_response(True)


async def asks(site: ServerContext, request: Request) -> Response:
    tree = query_text(request, "sessionID")
    return json_response(await site.runtime.asks(SessionId(tree) if tree else None))


async def answer(site: ServerContext, request: Request) -> Response:
    said = read_body(request, AskAnswer)
    call = await site.runtime.answer(
        path_id(request, "id", "ask"),
        said.reply,
        input=said.input,
        message=said.message,
        by=said.by,
    )
    return json_response(call)


_REPLY_STATUSES = (400, 404, 409)

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/permission",
        handler=permissions,
        access="token",
        summary="List open permission requests, oldest first",
        query=(DIRECTORY_PARAM,),
        headers=(DIRECTORY_HEADER_PARAM,),
        response=tuple[PermissionRequest, ...],
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/permission/{id}/reply",
        handler=reply_permission,
        access="token",
        summary="Reply to a permission request",
        body=PermissionReply,
        response=bool,
        statuses=_REPLY_STATUSES,
    ),
    Route(
        method="GET",
        path="/question",
        handler=questions,
        access="token",
        summary="List open questions, oldest first",
        query=(DIRECTORY_PARAM,),
        headers=(DIRECTORY_HEADER_PARAM,),
        response=tuple[QuestionRequest, ...],
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/question/{id}/reply",
        handler=reply_question,
        access="token",
        summary="Reply to a question",
        body=QuestionReply,
        response=bool,
        statuses=_REPLY_STATUSES,
    ),
    Route(
        method="POST",
        path="/question/{id}/reject",
        handler=reject_question,
        access="token",
        summary="Reject a question",
        response=bool,
        statuses=_REPLY_STATUSES,
    ),
    Route(
        method="GET",
        path="/v1/asks",
        handler=asks,
        access="token",
        summary="List calls that wait for a person, each with its lineage",
        query=(Param("sessionID", "Only calls of this session's tree"),),
        response=tuple[WaitingCall, ...],
        statuses=(404,),
    ),
    Route(
        method="POST",
        path="/v1/asks/{id}/answer",
        handler=answer,
        access="token",
        summary="Answer a permission request, a question or an approval",
        body=AskAnswer,
        response=Call,
        statuses=_REPLY_STATUSES,
    ),
)
