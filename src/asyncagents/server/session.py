"""`/session`: creating, reading, deleting and aborting sessions, in OpenCode's shapes."""

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from asyncagents.domain.id import SessionId
from asyncagents.domain.session import Rule, Session, SessionModel
from asyncagents.domain.shape import Shape
from asyncagents.domain.status import Idle, Status
from asyncagents.domain.todo import Todo
from asyncagents.engine.conversations import Opening
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.server.body import read
from asyncagents.server.given import (
    DIRECTED,
    DIRECTORY,
    KEYED,
    a_directory,
    directory,
    key,
    session_id,
)
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.route import Param, Route, Site

MOST_SESSIONS = 10_000
NO_VARIANT = "default"
"""OpenCode's name for no variant."""


class NewSession(Shape, frozen=True, kw_only=True):
    """`agent` and `model`: used until a prompt names others. `directory`: overrides the request's."""

    title: str | None = None
    parent_id: SessionId | None = None
    agent: str | None = None
    model: SessionModel | None = None
    metadata: dict[str, Any] | None = None
    permission: tuple[Rule, ...] | None = None
    directory: str | None = None
    workspace_id: str | None = None


async def create(site: Site, request: Request) -> Answer:
    new = read(request, NewSession)
    if new.workspace_id is not None:
        raise InvalidInput("workspaces are not supported: omit workspaceID and give a directory")
    session = await site.runtime.conversations.create(
        Opening(
            title=new.title,
            parent_id=new.parent_id,
            agent=new.agent,
            model=_plain(new.model),
            metadata=new.metadata,
            permission=new.permission or (),
            directory=a_directory(new.directory) if new.directory else directory(site, request),
            key=key(request),
        )
    )
    return shown(session)


def _plain(model: SessionModel | None) -> SessionModel | None:
    return replace(model, variant=None) if model is not None and model.variant == NO_VARIANT else model


async def statuses(site: Site, request: Request) -> Answer:
    return shown(await site.runtime.statuses())


async def get(site: Site, request: Request) -> Answer:
    return shown(await site.runtime.session(session_id(request)))


async def delete(site: Site, request: Request) -> Answer:
    await site.runtime.delete_session(session_id(request))
    return shown(True)


async def children(site: Site, request: Request) -> Answer:
    session = await site.runtime.session(session_id(request))
    return shown(await site.runtime.children(session.id))


async def todos(site: Site, request: Request) -> Answer:
    session = await site.runtime.session(session_id(request))
    return shown(await site.runtime.todos(session.id))


async def abort(site: Site, request: Request) -> Answer:
    """Returns true even if the session is idle or does not exist."""
    with suppress(NotFound):
        at = session_id(request)
        rested = isinstance(await site.runtime.status(at), Idle)
        await site.runtime.abort(at, key=key(request))
        if rested:
            await site.runtime.say_idle(at)
    return shown(True)


LIMIT = Param("limit", "Max sessions", "integer", least=1)
_AT = "/session/{id}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/session",
        handler=create,
        access="token",
        summary="Create a session without a prompt; once per Idempotency-Key",
        query=(DIRECTORY,),
        headers=(DIRECTED, KEYED),
        body=NewSession,
        answer=Session,
        statuses=(400, 404, 409),
    ),
    Route(
        method="GET",
        path="/session/status",
        handler=statuses,
        access="token",
        summary="Get the statuses of all non-idle sessions",
        answer=dict[str, Status],
    ),
    Route(
        method="GET",
        path=_AT,
        handler=get,
        access="token",
        summary="Get a session",
        answer=Session,
        statuses=(404,),
    ),
    Route(
        method="DELETE",
        path=_AT,
        handler=delete,
        access="token",
        summary="Delete a session and all its descendants",
        answer=bool,
        statuses=(404,),
    ),
    Route(
        method="GET",
        path=f"{_AT}/children",
        handler=children,
        access="token",
        summary="List the child sessions of a session",
        answer=tuple[Session, ...],
        statuses=(404,),
    ),
    Route(
        method="GET",
        path=f"{_AT}/todo",
        handler=todos,
        access="token",
        summary="List a session's todos",
        answer=tuple[Todo, ...],
        statuses=(404,),
    ),
    Route(
        method="POST",
        path=f"{_AT}/abort",
        handler=abort,
        access="token",
        summary="Abort a session and its descendants; once per Idempotency-Key",
        headers=(KEYED,),
        answer=bool,
        statuses=(400, 409),
    ),
)
