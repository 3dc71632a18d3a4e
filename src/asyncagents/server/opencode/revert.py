"""`/session/{id}/revert`, `unrevert` and `diff`: undoing and redoing messages with their file changes."""

from asyncagents.domain.conversation.session import FileDiff, Session
from asyncagents.domain.id import MessageId, PartId
from asyncagents.domain.shape import Shape
from asyncagents.server.http.body import read
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.params import Query, session_id
from asyncagents.server.route import Param, Route, Site


class Undo(Shape, frozen=True, kw_only=True):
    """The first message to undo, or a part of it. A prompt is undone together with its answer."""

    message_id: MessageId
    part_id: PartId | None = None


async def revert(site: Site, request: Request) -> Answer:
    wanted = read(request, Undo)
    session = await site.runtime.reverts.revert(session_id(request), wanted.message_id, wanted.part_id)
    return shown(session)


async def unrevert(site: Site, request: Request) -> Answer:
    return shown(await site.runtime.reverts.unrevert(session_id(request)))


async def diff(site: Site, request: Request) -> Answer:
    asked = Query(request.query).word("messageID")
    return shown(await site.runtime.reverts.diff(session_id(request), MessageId(asked) if asked else None))


_AT = "/session/{id}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path=f"{_AT}/revert",
        handler=revert,
        access="token",
        summary="Undo a message and all after it, with their file changes; the next prompt makes it final",
        body=Undo,
        answer=Session,
        statuses=(400, 404, 409),
    ),
    Route(
        method="POST",
        path=f"{_AT}/unrevert",
        handler=unrevert,
        access="token",
        summary="Redo undone messages",
        answer=Session,
        statuses=(404, 409),
    ),
    Route(
        method="GET",
        path=f"{_AT}/diff",
        handler=diff,
        access="token",
        summary="Diff the files that a session changed",
        query=(Param("messageID", "Only changes made in answer to this prompt"),),
        answer=tuple[FileDiff, ...],
        statuses=(400, 404),
    ),
)
