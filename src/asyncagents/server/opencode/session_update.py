"""Changing, archiving and forking sessions; sharing, which is not supported."""

from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from asyncagents.domain.conversation.session import Rule, Session, SessionChanges
from asyncagents.domain.id import MessageId
from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import idempotency_key, path_id, session_id
from asyncagents.server.route import Routes, ServerContext

routes = Routes()

MOST_MS = 2**53
NO_SHARING = (
    "Sharing is not supported: nothing leaves this machine. `asyncagents export` writes a session to a file"
    " that you can share."
)


class NewTime(Shape, frozen=True, kw_only=True):
    """`archived`: when the session was archived, in ms since the epoch; null unarchives it."""

    archived: int | float | UnsetType | None = UNSET


class SessionUpdate(Shape, frozen=True, kw_only=True):
    """`metadata` replaces the old value; rules of `permission` are appended."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    permission: tuple[Rule, ...] | None = None
    time: NewTime | None = None


class ForkRequest(Shape, frozen=True, kw_only=True):
    """Copies the messages before `messageID`; without it, all of them."""

    schema_name: ClassVar[str] = "Fork"

    message_id: MessageId | None = None


class PermissionResponse(Shape, frozen=True, kw_only=True):
    response: Literal["once", "always", "reject"]


@routes.patch("/session/{id}", access="token", body=SessionUpdate, response=Session)
async def update(server: ServerContext, request: Request) -> Response:
    """Change title, metadata, rules or archive time of a session."""
    new = read_body(request, SessionUpdate)
    change = SessionChanges(
        title=new.title,
        metadata=new.metadata,
        permission=new.permission or (),
        archived=_archive_time(new.time or NewTime()),
    )
    return json_response(await server.runtime.conversations.change(session_id(request), change))


def _archive_time(time: NewTime) -> int | UnsetType | None:
    if isinstance(time.archived, int | float):
        if not -MOST_MS <= time.archived <= MOST_MS:
            raise InvalidInput("time.archived must be a time in ms since 1970, such as 1763300000000")
        return int(time.archived)
    return time.archived


@routes.post("/session/{id}/fork", access="token", key=True, body=ForkRequest, response=Session)
async def fork(server: ServerContext, request: Request) -> Response:
    """Fork a session before a message, or as a whole."""
    wanted = read_body(request, ForkRequest)
    copy = await server.runtime.conversations.fork(
        session_id(request), before=wanted.message_id, key=idempotency_key(request)
    )
    return json_response(copy)


@routes.post("/session/{id}/share", access="token", response=Session)
async def share(server: ServerContext, request: Request) -> Response:
    """Share a session (always refused)."""
    await server.runtime.session(session_id(request))
    raise InvalidInput(NO_SHARING)


@routes.delete("/session/{id}/share", access="token", response=Session)
async def unshare(server: ServerContext, request: Request) -> Response:
    """Unshare a session (no effect: sessions are never shared).

    Does nothing: sessions are never shared."""
    return json_response(await server.runtime.session(session_id(request)))


@routes.post(
    "/session/{id}/permissions/{permissionID}",
    access="token",
    body=PermissionResponse,
    response=bool,
    statuses=(409,),
)
async def respond(server: ServerContext, request: Request) -> Response:
    """Reply to a permission request (OpenCode alias of `/permission/{id}/reply`)."""
    body = read_body(request, PermissionResponse)
    await server.runtime.session(session_id(request))
    await server.runtime.answer(path_id(request, "permissionID", "ask"), body.response)
    return json_response(True)
