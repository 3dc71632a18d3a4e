"""What is done to a session as a whole: renamed, put away, copied; and what OpenCode does that we do not."""

from typing import Any, Literal

from msgspec import UNSET, UnsetType

from asyncagents.domain.id import MessageId
from asyncagents.domain.session import Rule, Session
from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput
from asyncagents.server.body import read
from asyncagents.server.given import KEYED, key, path_id, session_id
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.route import Route, Site
from asyncagents.store.verb.change import Change

MOST_MS = 2**53
NO_SHARING = (
    "Sessions are not shared here: nothing leaves this machine. `asyncagents export` writes one to a file"
    " that you can hand on."
)


class NewTime(Shape, frozen=True, kw_only=True):
    """`archived`: when it was put away, in ms since the epoch; null takes it back."""

    archived: int | float | UnsetType | None = UNSET


class SessionUpdate(Shape, frozen=True, kw_only=True):
    """`metadata` replaces what was there, rules of `permission` come after those it has."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    permission: tuple[Rule, ...] | None = None
    time: NewTime | None = None


class Fork(Shape, frozen=True, kw_only=True):
    """Without a message, all of it."""

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
            raise InvalidInput("time.archived is a time in ms since 1970, such as 1763300000000")
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
    """Nobody has shared it."""
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
        summary="Rename a session, note something on it, add rules, or put it away",
        body=SessionUpdate,
        answer=Session,
        statuses=(400, 404),
    ),
    Route(
        method="POST",
        path=f"{_AT}/fork",
        handler=fork,
        access="token",
        summary="Copy what was said before a message, or all of it, to a session of its own",
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
        summary="Refused: nothing is shared here",
        answer=Session,
        statuses=(400, 404),
    ),
    Route(
        method="DELETE",
        path=f"{_AT}/share",
        handler=unshare,
        access="token",
        summary="The session, which nobody shared",
        answer=Session,
        statuses=(404,),
    ),
    Route(
        method="POST",
        path=f"{_AT}/permissions/{{permissionID}}",
        handler=respond,
        access="token",
        summary="Allow or deny what a session wants to do, once; as `/permission/{id}/reply` does",
        body=PermissionResponse,
        answer=bool,
        statuses=(400, 404, 409),
    ),
)
