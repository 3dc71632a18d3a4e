"""`/session`: conversations, in the shapes that OpenCode's clients know."""

from contextlib import suppress

from asyncagents.domain.history import Entry
from asyncagents.domain.id import SessionId
from asyncagents.domain.session import Rule, Session
from asyncagents.domain.shape import Shape
from asyncagents.domain.status import Status
from asyncagents.domain.todo import Todo
from asyncagents.errors import NotFound
from asyncagents.server.body import read
from asyncagents.server.given import (
    DIRECTED,
    DIRECTORY,
    KEYED,
    a_directory,
    directory,
    flag,
    key,
    message_id,
    number,
    session_id,
)
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.route import Param, Route, Site

MOST_SESSIONS = 10_000
MOST_MESSAGES = 1_000_000


class NewSession(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who answers is chosen with each prompt."""

    title: str | None = None
    parent_id: SessionId | None = None
    directory: str | None = None
    permission: tuple[Rule, ...] = ()


async def create(site: Site, request: Request) -> Answer:
    new = read(request, NewSession)
    session = await site.runtime.create_session(
        title=new.title,
        parent_id=new.parent_id,
        directory=a_directory(new.directory) if new.directory else directory(site, request),
        key=key(request),
        permission=new.permission,
    )
    return shown(session)


async def listed(site: Site, request: Request) -> Answer:
    where, limit = directory(site, request), number(request, "limit", default=100, most=MOST_SESSIONS)
    if flag(request, "roots"):
        return shown(await site.runtime.roots(where, limit=limit))
    return shown(await site.runtime.sessions(where, limit=limit))


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


async def messages(site: Site, request: Request) -> Answer:
    limit = number(request, "limit", default=MOST_MESSAGES, most=MOST_MESSAGES)
    session = await site.runtime.session(session_id(request))
    return shown(await site.runtime.messages(session.id, limit=limit))


async def message(site: Site, request: Request) -> Answer:
    wanted = message_id(request)
    entry = await site.runtime.message(wanted)
    if entry.info.session_id != session_id(request):
        raise NotFound("message", wanted)
    return shown(entry)


async def abort(site: Site, request: Request) -> Answer:
    """True, too, if there is nothing to end, or nobody who could be at work."""
    with suppress(NotFound):
        await site.runtime.abort(session_id(request))
    return shown(True)


LIMIT = Param("limit", "So many at most", "integer", least=1)
_AT = "/session/{id}"

ROUTES: tuple[Route, ...] = (
    Route(
        method="POST",
        path="/session",
        handler=create,
        access="token",
        summary="Begin a session, without a prompt; under the same Idempotency-Key, one",
        query=(DIRECTORY,),
        headers=(DIRECTED, KEYED),
        body=NewSession,
        answer=Session,
        statuses=(400, 404),
    ),
    Route(
        method="GET",
        path="/session",
        handler=listed,
        access="token",
        summary="Sessions of a directory, the newest first",
        query=(DIRECTORY, Param("roots", "Only those that nobody started", "boolean"), LIMIT),
        headers=(DIRECTED,),
        answer=tuple[Session, ...],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/session/status",
        handler=statuses,
        access="token",
        summary="What sessions do that are not idle",
        answer=dict[str, Status],
    ),
    Route(
        method="GET",
        path=_AT,
        handler=get,
        access="token",
        summary="A session",
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
        summary="The sessions that it started",
        answer=tuple[Session, ...],
        statuses=(404,),
    ),
    Route(
        method="GET",
        path=f"{_AT}/todo",
        handler=todos,
        access="token",
        summary="Its plan",
        answer=tuple[Todo, ...],
        statuses=(404,),
    ),
    Route(
        method="GET",
        path=f"{_AT}/message",
        handler=messages,
        access="token",
        summary="Its messages, the oldest first; with a limit, the newest of them",
        query=(LIMIT,),
        answer=tuple[Entry, ...],
        statuses=(400, 404),
    ),
    Route(
        method="GET",
        path=f"{_AT}/message/{{messageID}}",
        handler=message,
        access="token",
        summary="One message with its parts",
        answer=Entry,
        statuses=(404,),
    ),
    Route(
        method="POST",
        path=f"{_AT}/abort",
        handler=abort,
        access="token",
        summary="End what a session and its descendants do",
        answer=bool,
    ),
)
