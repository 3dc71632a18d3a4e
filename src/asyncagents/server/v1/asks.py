"""`/v1/asks`: calls that wait for a person, and answers to them."""

from typing import Any, ClassVar

from asyncagents.domain.call.call import Always, Answers, Call, Once, Reject
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import path_id, query_text
from asyncagents.server.route import Param, Route, ServerContext


class AskAnswer(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`reply`: a word, or a list of answers for each question. `by`: the person who answers, as text."""

    schema_name: ClassVar[str] = "Answered"

    reply: str | tuple[tuple[str, ...], ...] | Once | Always | Reject | Answers
    input: dict[str, Any] | None = None
    message: str = ""
    by: str = ""


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


ROUTES: tuple[Route, ...] = (
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
        statuses=(400, 404, 409),
    ),
)
