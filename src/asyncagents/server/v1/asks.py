"""`/v1/asks`: calls that wait for a person, and answers to them."""

from typing import Any, ClassVar

from asyncagents.domain.call.call import Always, Answers, Call, Once, Reject
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import path_id, query_text
from asyncagents.server.route import Param, Routes, ServerContext

routes = Routes()


class AskAnswer(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`reply`: a word, or a list of answers for each question. `by`: the person who answers, as text."""

    schema_name: ClassVar[str] = "Answered"

    reply: str | tuple[tuple[str, ...], ...] | Once | Always | Reject | Answers
    input: dict[str, Any] | None = None
    message: str = ""
    by: str = ""


@routes.get(
    "/v1/asks",
    access="token",
    query=(Param("sessionID", "Only calls of this session's tree"),),
    response=tuple[WaitingCall, ...],
    statuses=(404,),
)
async def asks(server: ServerContext, request: Request) -> Response:
    """List calls that wait for a person, each with its lineage."""
    tree = query_text(request, "sessionID")
    return json_response(await server.runtime.asks(SessionId(tree) if tree else None))


@routes.post("/v1/asks/{id}/answer", access="token", body=AskAnswer, response=Call, statuses=(409,))
async def answer(server: ServerContext, request: Request) -> Response:
    """Answer a permission request, a question or an approval."""
    body = read_body(request, AskAnswer)
    call = await server.runtime.answer(
        path_id(request, "id", "ask"),
        body.reply,
        input=body.input,
        message=body.message,
        by=body.by,
    )
    return json_response(call)
