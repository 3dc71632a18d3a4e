"""`/permission` and `/question`: open asks of sessions and replies to them, in OpenCode's shapes."""

from typing import Literal

from asyncagents.domain.call.ask import PermissionRequest, QuestionRequest
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import (
    DIRECTORY_HEADER_PARAM,
    DIRECTORY_PARAM,
    named_directory,
    path_id,
)
from asyncagents.server.route import Route, ServerContext


class PermissionReply(Shape, frozen=True, kw_only=True):
    """`message`: sent to the model with `reject`, so that it can try another way."""

    reply: Literal["once", "always", "reject"]
    message: str | None = None


class QuestionReply(Shape, frozen=True, kw_only=True):
    """For each question the chosen or written answers."""

    answers: tuple[tuple[str, ...], ...]


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
)
