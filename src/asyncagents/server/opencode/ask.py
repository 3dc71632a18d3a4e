"""Asks of sessions: permission requests and questions, and replies to them."""

from typing import Any, Literal

from asyncagents.domain.call.ask import PermissionRequest, QuestionRequest
from asyncagents.domain.call.call import Always, Answers, Call, Once, Reject
from asyncagents.domain.call.waiting import Waiting
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.params import DIRECTED, DIRECTORY, named_directory, one, path_id
from asyncagents.server.route import Param, Route, Site


class PermissionReply(Shape, frozen=True, kw_only=True):
    """`message`: sent to the model with `reject`, so that it can try another way."""

    reply: Literal["once", "always", "reject"]
    message: str | None = None


class QuestionReply(Shape, frozen=True, kw_only=True):
    """For each question the chosen or written answers."""

    answers: tuple[tuple[str, ...], ...]


class Answered(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`reply`: a word, or a list of answers for each question. `by`: the person who answers, as text."""

    reply: str | tuple[tuple[str, ...], ...] | Once | Always | Reject | Answers
    input: dict[str, Any] | None = None
    message: str = ""
    by: str = ""


async def permissions(site: Site, request: Request) -> Answer:
    asked = [each.call.open.ask for each in await _asked(site, request) if each.call.open]
    return shown([ask for ask in asked if ask is not None])


async def questions(site: Site, request: Request) -> Answer:
    asked = [each.call.open.question for each in await _asked(site, request) if each.call.open]
    return shown([question for question in asked if question is not None])


async def _asked(site: Site, request: Request) -> list[Waiting]:
    where = named_directory(request, beneath=site.directory)
    return [each for each in await site.runtime.asks() if where in (None, each.lineage[-1].directory)]


async def reply_permission(site: Site, request: Request) -> Answer:
    said = read(request, PermissionReply)
    if said.message and said.reply != "reject":
        raise InvalidInput("message is only allowed with reject: it tells the model what to do instead")
    await site.runtime.answer(path_id(request, "id", "ask"), said.reply, message=said.message or "")
    return shown(True)


async def reply_question(site: Site, request: Request) -> Answer:
    said = read(request, QuestionReply)
    await site.runtime.answer(path_id(request, "id", "ask"), said.answers)
    return shown(True)


async def reject_question(site: Site, request: Request) -> Answer:
    await site.runtime.answer(path_id(request, "id", "ask"), "reject")
    return shown(True)


async def asks(site: Site, request: Request) -> Answer:
    tree = one(request, "sessionID")
    return shown(await site.runtime.asks(SessionId(tree) if tree else None))


async def answer(site: Site, request: Request) -> Answer:
    said = read(request, Answered)
    call = await site.runtime.answer(
        path_id(request, "id", "ask"),
        said.reply,
        input=said.input,
        message=said.message,
        by=said.by,
    )
    return shown(call)


_ANSWERED = (400, 404, 409)

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/permission",
        handler=permissions,
        access="token",
        summary="List open permission requests, oldest first",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=tuple[PermissionRequest, ...],
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/permission/{id}/reply",
        handler=reply_permission,
        access="token",
        summary="Reply to a permission request",
        body=PermissionReply,
        answer=bool,
        statuses=_ANSWERED,
    ),
    Route(
        method="GET",
        path="/question",
        handler=questions,
        access="token",
        summary="List open questions, oldest first",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=tuple[QuestionRequest, ...],
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/question/{id}/reply",
        handler=reply_question,
        access="token",
        summary="Reply to a question",
        body=QuestionReply,
        answer=bool,
        statuses=_ANSWERED,
    ),
    Route(
        method="POST",
        path="/question/{id}/reject",
        handler=reject_question,
        access="token",
        summary="Reject a question",
        answer=bool,
        statuses=_ANSWERED,
    ),
    Route(
        method="GET",
        path="/v1/asks",
        handler=asks,
        access="token",
        summary="List calls that wait for a person, each with its lineage",
        query=(Param("sessionID", "Only calls of this session's tree"),),
        answer=tuple[Waiting, ...],
        statuses=(404,),
    ),
    Route(
        method="POST",
        path="/v1/asks/{id}/answer",
        handler=answer,
        access="token",
        summary="Answer a permission request, a question or an approval",
        body=Answered,
        answer=Call,
        statuses=_ANSWERED,
    ),
)
