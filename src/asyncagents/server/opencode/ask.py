"""`/permission` and `/question`: open asks of sessions and replies to them, in OpenCode's shapes."""

from typing import Literal

from asyncagents.domain.call.ask import PermissionRequest, QuestionRequest
from asyncagents.domain.call.waiting import WaitingCall
from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import named_directory, path_id
from asyncagents.server.route import Routes, ServerContext

routes = Routes()


class PermissionReply(Shape, frozen=True, kw_only=True):
    """`message`: sent to the model with `reject`, so that it can try another way."""

    reply: Literal["once", "always", "reject"]
    message: str | None = None


class QuestionReply(Shape, frozen=True, kw_only=True):
    """For each question the chosen or written answers."""

    answers: tuple[tuple[str, ...], ...]


@routes.get("/permission", access="token", directory=True, response=tuple[PermissionRequest, ...])
async def permissions(server: ServerContext, request: Request) -> Response:
    """List open permission requests, oldest first."""
    asked = [each.call.open.ask for each in await _open_asks(server, request) if each.call.open]
    return json_response([ask for ask in asked if ask is not None])


@routes.post("/permission/{id}/reply", access="token", body=PermissionReply, response=bool, statuses=(409,))
async def reply_permission(server: ServerContext, request: Request) -> Response:
    """Reply to a permission request."""
    body = read_body(request, PermissionReply)
    if body.message and body.reply != "reject":
        raise InvalidInput("message is only allowed with reject: it tells the model what to do instead")
    await server.runtime.answer(path_id(request, "id", "ask"), body.reply, message=body.message or "")
    return json_response(True)


@routes.get("/question", access="token", directory=True, response=tuple[QuestionRequest, ...])
async def questions(server: ServerContext, request: Request) -> Response:
    """List open questions, oldest first."""
    asked = [each.call.open.question for each in await _open_asks(server, request) if each.call.open]
    return json_response([question for question in asked if question is not None])


@routes.post("/question/{id}/reply", access="token", body=QuestionReply, response=bool, statuses=(409,))
async def reply_question(server: ServerContext, request: Request) -> Response:
    """Reply to a question."""
    body = read_body(request, QuestionReply)
    await server.runtime.answer(path_id(request, "id", "ask"), body.answers)
    return json_response(True)


@routes.post("/question/{id}/reject", access="token", response=bool, statuses=(409,))
async def reject_question(server: ServerContext, request: Request) -> Response:
    """Reject a question."""
    await server.runtime.answer(path_id(request, "id", "ask"), "reject")
    return json_response(True)


async def _open_asks(server: ServerContext, request: Request) -> list[WaitingCall]:
    where = named_directory(request, beneath=server.directory)
    return [each for each in await server.runtime.asks() if where in (None, each.lineage[-1].directory)]
