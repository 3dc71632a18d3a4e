"""`/session/{id}/revert`, `unrevert` and `diff`: undoing and redoing messages with their file changes."""

from asyncagents.domain.conversation.session import FileDiff, Session
from asyncagents.domain.id import MessageId, PartId
from asyncagents.domain.shape import Shape
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import query_nonempty_text, session_id
from asyncagents.server.route import Param, Routes, ServerContext

routes = Routes()


class Undo(Shape, frozen=True, kw_only=True):
    """The first message to undo, or a part of it. A prompt is undone together with its answer."""

    message_id: MessageId
    part_id: PartId | None = None


@routes.post("/session/{id}/revert", access="token", body=Undo, response=Session, statuses=(409,))
async def revert(server: ServerContext, request: Request) -> Response:
    """Undo a message and all after it, with their file changes; the next prompt makes it final."""
    wanted = read_body(request, Undo)
    session = await server.runtime.reverts.revert(session_id(request), wanted.message_id, wanted.part_id)
    return json_response(session)


@routes.post("/session/{id}/unrevert", access="token", response=Session, statuses=(409,))
async def unrevert(server: ServerContext, request: Request) -> Response:
    """Redo undone messages."""
    return json_response(await server.runtime.reverts.unrevert(session_id(request)))


@routes.get(
    "/session/{id}/diff",
    access="token",
    query=(Param("messageID", "Only changes made in answer to this prompt"),),
    response=tuple[FileDiff, ...],
)
async def diff(server: ServerContext, request: Request) -> Response:
    """Diff the files that a session changed."""
    asked = query_nonempty_text(request, "messageID")
    return json_response(
        await server.runtime.reverts.diff(session_id(request), MessageId(asked) if asked else None)
    )
