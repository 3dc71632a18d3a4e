"""Changing, archiving and forking sessions; sharing, which is not supported."""

from typing import Any, ClassVar, Literal

from msgspec import UNSET, UnsetType

from asyncagents.domain.conversation.session import Rule, Session, SessionChanges
from asyncagents.domain.id import MessageId
from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import KEY_PARAM, idempotency_key, path_id, session_id
from asyncagents.server.route import Route, ServerContext

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


async def update(site: ServerContext, request: Request) -> Response:
    new = read_body(request, SessionUpdate)
    change = SessionChanges(
        title=new.title,
        metadata=new.metadata,
        permission=new.permission or (),
        archived=_archive_time(new.time or NewTime()),
    )
    return json_response(await site.runtime.conversations.change(session_id(request), change))


def _archive_time(time: NewTime) -> int | UnsetType | None:
    if isinstance(time.archived, int | float):
        if not -MOST_MS <= time.archived <= MOST_MS:
            raise InvalidInput("time.archived must be a time in ms since 1970, such as 1763300000000")
        return int(time.archived)
    return time.archived


async def fork(site: ServerContext, request: Request) -> Response:
    wanted = read_body(request, ForkRequest)
    copy = await site.runtime.conversations.fork(
        session_id(request), before=wanted.message_id, key=idempotency_key(request)
    )
    return json_response(copy)


async def share(site: ServerContext, request: Request) -> Response:
    await site.runtime.session(session_id(request))
    raise InvalidInput(NO_SHARING)


async def unshare(site: ServerContext, request: Request) -> Response:
    """Does nothing: sessions are never shared."""
    return json_response(await site.runtime.session(session_id(request)))


async def respond(site: ServerContext, request: Request) -> Response:
    said = read_body(request, PermissionResponse)
    await site.runtime.session(session_id(request))
    await site.runtime.answer(path_id(request, "permissionID", "ask"), said.response)
    return json_response(True)


_AT = "/session/{id}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="PATCH",
        path=_AT,
        handler=update,
        access="token",
        summary="Change title, metadata, rules or archive time of a session",
        body=SessionUpdate,
        response=Session,
        statuses=(400, 404),
    ),
    Route(
        method="POST",
        path=f"{_AT}/fork",
        handler=fork,
        access="token",
        summary="Fork a session before a message, or as a whole",
        headers=(KEY_PARAM,),
        body=ForkRequest,
        response=Session,
        statuses=(400, 404, 409),
    ),
    Route(
        method="POST",
        path=f"{_AT}/share",
        handler=share,
        access="token",
        summary="Share a session (always refused)",
        response=Session,
        statuses=(400, 404),
    ),
    Route(
        method="DELETE",
        path=f"{_AT}/share",
        handler=unshare,
        access="token",
        summary="Unshare a session (no effect: sessions are never shared)",
        response=Session,
        statuses=(404,),
    ),
    Route(
        method="POST",
        path=f"{_AT}/permissions/{{permissionID}}",
        handler=respond,
        access="token",
        summary="Reply to a permission request (OpenCode alias of `/permission/{id}/reply`)",
        body=PermissionResponse,
        response=bool,
        statuses=(400, 404, 409),
    ),
)
