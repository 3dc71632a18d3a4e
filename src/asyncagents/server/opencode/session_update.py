"""Changing, archiving and forking sessions; sharing, which is not supported."""

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from asyncagents.domain.conversation.session import Rule, Session
from asyncagents.domain.id import MessageId
from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.params import KEYED, key, path_id, session_id
from asyncagents.server.route import Route, Site
from asyncagents.store.verb.session_update import Change

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


class Fork(Shape, frozen=True, kw_only=True):
    """Copies the messages before `messageID`; without it, all of them."""

    message_id: MessageId | None = None


class PermissionResponse(Shape, frozen=True, kw_only=True):
    response: Literal["once", "always", "reject"]


async def update(site: Site, request: Request) -> Answer:
    new = read(request, SessionUpdate)
    change = Change(
        title=new.title,
        metadata=new.metadata,
        permission=new.permission or (),
        archived=_archived(new.time or NewTime()),
    )
    return shown(await site.runtime.conversations.change(session_id(request), change))


def _archived(time: NewTime) -> int | UnsetType | None:
    if isinstance(time.archived, int | float):
        if not -MOST_MS <= time.archived <= MOST_MS:
            raise InvalidInput("time.archived must be a time in ms since 1970, such as 1763300000000")
        return int(time.archived)
    return time.archived


async def fork(site: Site, request: Request) -> Answer:
    wanted = read(request, Fork)
    copy = await site.runtime.conversations.fork(
        session_id(request), before=wanted.message_id, key=key(request)
    )
    return shown(copy)


async def share(site: Site, request: Request) -> Answer:
    await site.runtime.session(session_id(request))
    raise InvalidInput(NO_SHARING)


async def unshare(site: Site, request: Request) -> Answer:
    """Does nothing: sessions are never shared."""
    return shown(await site.runtime.session(session_id(request)))


async def respond(site: Site, request: Request) -> Answer:
    said = read(request, PermissionResponse)
    await site.runtime.session(session_id(request))
    await site.runtime.answer(path_id(request, "permissionID", "ask"), said.response)
    return shown(True)


_AT = "/session/{id}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="PATCH",
        path=_AT,
        handler=update,
        access="token",
        summary="Change title, metadata, rules or archive time of a session",
        body=SessionUpdate,
        answer=Session,
        statuses=(400, 404),
    ),
    Route(
        method="POST",
        path=f"{_AT}/fork",
        handler=fork,
        access="token",
        summary="Fork a session before a message, or as a whole",
        headers=(KEYED,),
        body=Fork,
        answer=Session,
        statuses=(400, 404, 409),
    ),
    Route(
        method="POST",
        path=f"{_AT}/share",
        handler=share,
        access="token",
        summary="Share a session (always refused)",
        answer=Session,
        statuses=(400, 404),
    ),
    Route(
        method="DELETE",
        path=f"{_AT}/share",
        handler=unshare,
        access="token",
        summary="Unshare a session (no effect: sessions are never shared)",
        answer=Session,
        statuses=(404,),
    ),
    Route(
        method="POST",
        path=f"{_AT}/permissions/{{permissionID}}",
        handler=respond,
        access="token",
        summary="Reply to a permission request (OpenCode alias of `/permission/{id}/reply`)",
        body=PermissionResponse,
        answer=bool,
        statuses=(400, 404, 409),
    ),
)
