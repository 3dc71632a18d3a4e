"""Lists of sessions of a directory, a project, or all directories, last used first."""

from asyncagents.domain.listing import FOREVER, SessionQuery
from asyncagents.domain.session import Session
from asyncagents.domain.shape import Shape
from asyncagents.errors import InvalidInput
from asyncagents.server.given import DIRECTED, DIRECTORY, directory, flag, named_directory, number, one
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.query import Query
from asyncagents.server.route import Param, Route, Site
from asyncagents.server.session import LIMIT, MOST_SESSIONS

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
