"""`/session`: creating, reading, deleting and aborting sessions, in OpenCode's shapes."""

from contextlib import suppress
from typing import Any, ClassVar

from msgspec.structs import replace

from asyncagents.domain.conversation.mcp_server import NewMcpServer
from asyncagents.domain.conversation.session import FOREVER, Rule, Session, SessionModel, SessionQuery
from asyncagents.domain.conversation.status import Idle, Status
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape
from asyncagents.engine.runtime.sessions import SessionOptions
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.params import (
    LIMIT_PARAM,
    MOST_SESSIONS,
    directory,
    idempotency_key,
    named_directory,
    parse_directory,
    query_choice,
    query_flag,
    query_number,
    query_text,
    session_id,
)
from asyncagents.server.route import DIRECTORY_HEADER_PARAM, Param, Routes, ServerContext

routes = Routes()

NO_VARIANT = "default"
"""OpenCode's name for no variant."""
NEXT_CURSOR_HEADER = "x-next-cursor"
MOST_MS = 2**53
_ROOTS = Param("roots", "Only sessions without a parent", "boolean")
_START = Param(
    "start", "Only sessions updated at or after this time, in ms since the epoch", "number", least=0
)
_SEARCH = Param("search", "Only titles that contain this, ignoring case")


class CreateSession(Shape, frozen=True, kw_only=True):
    """`agent` and `model`: used until a prompt names others. `directory`: overrides the request's.
    `mcpServers`: servers of this session and its children, besides those of the directory."""

    schema_name: ClassVar[str] = "NewSession"

    title: str | None = None
    parent_id: SessionId | None = None
    agent: str | None = None
    model: SessionModel | None = None
    metadata: dict[str, Any] | None = None
    permission: tuple[Rule, ...] | None = None
    directory: str | None = None
    workspace_id: str | None = None
    mcp_servers: tuple[NewMcpServer, ...] = ()


@routes.post(
    "/session",
    access="token",
    directory=True,
    key=True,
    body=CreateSession,
    response=Session,
    statuses=(404,),
)
async def create(server: ServerContext, request: Request) -> Response:
    """Create a session without a prompt; once per Idempotency-Key."""
    new = read_body(request, CreateSession)
    if new.workspace_id is not None:
        raise InvalidInput("workspaces are not supported: omit workspaceID and give a directory")
    session = await server.runtime.conversations.create(
        SessionOptions(
            title=new.title,
            parent_id=new.parent_id,
            agent=new.agent,
            model=_without_default_variant(new.model),
            metadata=new.metadata,
            permission=new.permission or (),
            directory=parse_directory(new.directory) if new.directory else directory(server, request),
            mcp_servers=new.mcp_servers,
            key=idempotency_key(request),
        )
    )
    return json_response(session)


def _without_default_variant(model: SessionModel | None) -> SessionModel | None:
    return replace(model, variant=None) if model is not None and model.variant == NO_VARIANT else model


@routes.get("/session/status", access="token", response=dict[str, Status])
async def statuses(server: ServerContext, request: Request) -> Response:
    """Get the statuses of all non-idle sessions."""
    return json_response(await server.runtime.statuses())


@routes.get("/session/{id}", access="token", response=Session)
async def get(server: ServerContext, request: Request) -> Response:
    """Get a session."""
    return json_response(await server.runtime.session(session_id(request)))


@routes.delete("/session/{id}", access="token", response=bool)
async def delete(server: ServerContext, request: Request) -> Response:
    """Delete a session and all its descendants."""
    await server.runtime.delete_session(session_id(request))
    return json_response(True)


@routes.get("/session/{id}/children", access="token", response=tuple[Session, ...])
async def children(server: ServerContext, request: Request) -> Response:
    """List the child sessions of a session."""
    session = await server.runtime.session(session_id(request))
    return json_response(await server.runtime.children(session.id))


@routes.get("/session/{id}/todo", access="token", response=tuple[Todo, ...])
async def todos(server: ServerContext, request: Request) -> Response:
    """List a session's todos."""
    session = await server.runtime.session(session_id(request))
    return json_response(await server.runtime.todos(session.id))


@routes.post("/session/{id}/abort", access="token", key=True, response=bool)
async def abort(server: ServerContext, request: Request) -> Response:
    """Abort a session and its descendants; once per Idempotency-Key.

    Returns true even if the session is idle or does not exist."""
    with suppress(NotFound):
        at = session_id(request)
        rested = isinstance(await server.runtime.status(at), Idle)
        await server.runtime.abort(at, key=idempotency_key(request))
        if rested:
            await server.runtime.publish_idle(at)
    return json_response(True)


class SessionProject(Shape, frozen=True, kw_only=True):
    """The project of a session."""

    id: str
    worktree: str


class GlobalSession(Session, frozen=True, kw_only=True):
    project: SessionProject


@routes.get(
    "/session",
    access="token",
    directory=True,
    query=(
        Param("scope", "All sessions of the directory's project", choices=("project",)),
        Param("path", "Only sessions in this subdirectory of the project"),
        _ROOTS,
        _START,
        _SEARCH,
        LIMIT_PARAM,
    ),
    response=tuple[Session, ...],
)
async def list_sessions(server: ServerContext, request: Request) -> Response:
    """List the sessions of a directory or project, last used first."""
    scope = query_choice(request, "scope", ("project",))
    path, here = query_text(request, "path"), named_directory(request)
    exactly = here if scope is None and path is None else None
    below = None
    if exactly is None:
        root = (await server.runtime.conversations.worktree(directory(server, request))).rstrip("/")
        below = _path_in_project(root, path or "")
    query = SessionQuery(
        directory=exactly,
        below=below,
        roots=query_flag(request, "roots"),
        start=query_time(request, "start", otherwise=0),
        search=query_text(request, "search") or "",
        limit=query_number(request, "limit", default=100, most=MOST_SESSIONS),
    )
    async with server.heavy_reads:
        found = await server.runtime.conversations.list(query)
    return json_response(found)


@routes.get(
    "/experimental/session",
    access="token",
    query=(
        Param("directory", "Only sessions of this absolute directory"),
        _ROOTS,
        _START,
        Param("cursor", "X-Next-Cursor of the previous page", "number", least=0),
        _SEARCH,
        Param("archived", "Include archived sessions", "boolean"),
        LIMIT_PARAM,
    ),
    headers=(DIRECTORY_HEADER_PARAM,),
    response=tuple[GlobalSession, ...],
)
async def list_all_sessions(server: ServerContext, request: Request) -> Response:
    """List the sessions of all directories, last used first, by page.

    Sessions with the same update time are never split over two pages."""
    limit = query_number(request, "limit", default=100, most=MOST_SESSIONS)
    query = SessionQuery(
        directory=named_directory(request),
        roots=query_flag(request, "roots"),
        start=query_time(request, "start", otherwise=0),
        before=query_time(request, "cursor", otherwise=FOREVER),
        search=query_text(request, "search") or "",
        archived=query_flag(request, "archived"),
        limit=limit + 1,
    )
    async with server.heavy_reads:
        found = await server.runtime.conversations.list(query)
    page = found[:limit]
    if len(found) > limit:
        over = found[limit].time.updated
        page = tuple(each for each in page if each.time.updated > over) or page
    body = json_response([_with_project(each) for each in page])
    if len(page) < len(found):
        return Response(200, body.body, ((NEXT_CURSOR_HEADER, str(page[-1].time.updated)),))
    return body


def _with_project(session: Session) -> GlobalSession:
    fields = {name: getattr(session, name) for name in Session.__struct_fields__}
    return GlobalSession(**fields, project=SessionProject(id=session.project_id, worktree=session.directory))


def _path_in_project(root: str, path: str) -> str:
    """Join a relative path to the project's root. Raises `InvalidInput` if it leads out of the project."""
    steps = [step for step in path.split("/") if step and step != "."]
    if path.startswith("/") or ".." in steps or len(path) > 4096 or not path.isprintable():
        raise InvalidInput("path must be a directory in the project, relative to its root")
    return "/".join((root, *steps))


def query_time(request: Request, name: str, *, otherwise: int) -> int:
    """Return a query parameter as ms since the epoch; clients may send a fraction."""
    text = query_text(request, name)
    if text is None:
        return otherwise
    try:
        value = float(text) if len(text) <= 40 else -1.0
    except ValueError:
        value = -1.0
    if not 0 <= value <= MOST_MS:
        raise InvalidInput(f"{name} must be a time in ms since 1970, such as 1763300000000")
    return int(value)
