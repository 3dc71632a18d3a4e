"""`/session`: creating, reading, deleting and aborting sessions, in OpenCode's shapes."""

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from asyncagents.domain.conversation.session import FOREVER, Rule, Session, SessionModel, SessionQuery
from asyncagents.domain.conversation.status import Idle, Status
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape
from asyncagents.engine.runtime.sessions import Opening
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.server.http.body import read
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.params import (
    DIRECTED,
    DIRECTORY,
    KEYED,
    Query,
    a_directory,
    directory,
    flag,
    key,
    named_directory,
    number,
    one,
    session_id,
)
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


NEXT = "x-next-cursor"
MOST_MS = 2**53


class SessionProject(Shape, frozen=True, kw_only=True):
    """The project of a session."""

    id: str
    worktree: str


class GlobalSession(Session, frozen=True, kw_only=True):
    project: SessionProject


async def listed(site: Site, request: Request) -> Answer:
    scope = Query(request.query).one_of("scope", ("project",))
    path, here = one(request, "path"), named_directory(request)
    exactly = here if scope is None and path is None else None
    below = None
    if exactly is None:
        root = (await site.runtime.conversations.worktree(directory(site, request))).rstrip("/")
        below = _inside(root, path or "")
    query = SessionQuery(
        directory=exactly,
        below=below,
        roots=flag(request, "roots"),
        start=moment(request, "start", otherwise=0),
        search=one(request, "search") or "",
        limit=number(request, "limit", default=100, most=MOST_SESSIONS),
    )
    async with site.looks:
        found = await site.runtime.conversations.list(query)
    return shown(found)


async def everywhere(site: Site, request: Request) -> Answer:
    """Sessions with the same update time are never split over two pages."""
    limit = number(request, "limit", default=100, most=MOST_SESSIONS)
    query = SessionQuery(
        directory=named_directory(request),
        roots=flag(request, "roots"),
        start=moment(request, "start", otherwise=0),
        before=moment(request, "cursor", otherwise=FOREVER),
        search=one(request, "search") or "",
        archived=flag(request, "archived"),
        limit=limit + 1,
    )
    async with site.looks:
        found = await site.runtime.conversations.list(query)
    page = found[:limit]
    if len(found) > limit:
        over = found[limit].time.updated
        page = tuple(each for each in page if each.time.updated > over) or page
    body = shown([_with_project(each) for each in page])
    if len(page) < len(found):
        return Answer(200, body.body, ((NEXT, str(page[-1].time.updated)),))
    return body


def _with_project(session: Session) -> GlobalSession:
    fields = {name: getattr(session, name) for name in Session.__struct_fields__}
    return GlobalSession(**fields, project=SessionProject(id=session.project_id, worktree=session.directory))


def _inside(root: str, path: str) -> str:
    """Join a relative path to the project's root. Raises `InvalidInput` if it leads out of the project."""
    steps = [step for step in path.split("/") if step and step != "."]
    if path.startswith("/") or ".." in steps or len(path) > 4096 or not path.isprintable():
        raise InvalidInput("path must be a directory in the project, relative to its root")
    return "/".join((root, *steps))


def moment(request: Request, name: str, *, otherwise: int) -> int:
    """Return a query parameter as ms since the epoch; clients may send a fraction."""
    text = one(request, name)
    if text is None:
        return otherwise
    try:
        value = float(text) if len(text) <= 40 else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value <= MOST_MS:
        raise InvalidInput(f"{name} must be a time in ms since 1970, such as 1763300000000")
    return int(value)


_ROOTS = Param("roots", "Only sessions without a parent", "boolean")
_START = Param(
    "start", "Only sessions updated at or after this time, in ms since the epoch", "number", least=0
)
_SEARCH = Param("search", "Only titles that contain this, ignoring case")

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
    Route(
        method="GET",
        path="/session",
        handler=listed,
        access="token",
        summary="List the sessions of a directory or project, last used first",
        query=(
            DIRECTORY,
            Param("scope", "All sessions of the directory's project", choices=("project",)),
            Param("path", "Only sessions in this subdirectory of the project"),
            _ROOTS,
            _START,
            _SEARCH,
            LIMIT,
        ),
        headers=(DIRECTED,),
        answer=tuple[Session, ...],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/experimental/session",
        handler=everywhere,
        access="token",
        summary="List the sessions of all directories, last used first, by page",
        query=(
            Param("directory", "Only sessions of this absolute directory"),
            _ROOTS,
            _START,
            Param("cursor", "X-Next-Cursor of the previous page", "number", least=0),
            _SEARCH,
            Param("archived", "Include archived sessions", "boolean"),
            LIMIT,
        ),
        headers=(DIRECTED,),
        answer=tuple[GlobalSession, ...],
        statuses=(400,),
    ),
)
