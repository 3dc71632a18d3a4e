"""Other routes of OpenCode's clients: tools, log, and fixed responses for unsupported features."""

import logging
from typing import Any, Literal

from asyncagents.domain.shape import Shape, encode
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import ERROR_NAMES, Request, Response, json_response
from asyncagents.server.opencode.workplace import workplace
from asyncagents.server.params import DIRECTORY_HEADER_PARAM, DIRECTORY_PARAM, query_text
from asyncagents.server.route import Handler, Param, Route, ServerContext
from asyncagents.version import VERSION

LONGEST_LOG = 10_000
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
_log = logging.getLogger(__name__)


class Healthy(Shape, frozen=True, kw_only=True):
    healthy: bool
    version: str


class Console(Shape, frozen=True, kw_only=True):
    console_managed_providers: tuple[str, ...]
    switchable_org_count: int


class Orgs(Shape, frozen=True, kw_only=True):
    orgs: tuple[str, ...]


class ToolInfo(Shape, frozen=True, kw_only=True):
    id: str
    description: str
    parameters: dict[str, Any]


class LogLine(Shape, frozen=True, kw_only=True):
    service: str
    level: Literal["debug", "info", "warn", "error"]
    message: str
    extra: dict[str, Any] | None = None


def fixed_response(value: Any) -> Handler:
    """Make a handler that always returns `value`."""
    answer = json_response(value)

    async def handle(site: ServerContext, request: Request) -> Response:
        return answer

    return handle


async def tool_ids(site: ServerContext, request: Request) -> Response:
    return json_response(list((await workplace(site, request)).tools))


async def tools(site: ServerContext, request: Request) -> Response:
    """The tools are the same for every model."""
    if not query_text(request, "provider") or not query_text(request, "model"):
        raise InvalidInput("provider and model are required, as in ?provider=anthropic&model=…")
    specs = [tool.spec() for tool in (await workplace(site, request)).tools.values()]
    return json_response(
        [ToolInfo(id=spec.name, description=spec.description, parameters=spec.parameters) for spec in specs]
    )


async def log(site: ServerContext, request: Request) -> Response:
    """The entry is escaped into one line."""
    line = read_body(request, LogLine)
    extra = f" {line.extra!r}" if line.extra else ""
    told = f"{line.service!r}: {line.message!r}{extra}"[:LONGEST_LOG]
    _log.log(_LEVELS[line.level], "action=client_log %s", told)
    return json_response(True)


async def upgrade(site: ServerContext, request: Request) -> Response:
    """The body has both our error shape and OpenCode's `success` and `error`."""
    why = "upgrading over HTTP is not supported: run `pip install -U asyncagents` where the server runs"
    plain = {"name": ERROR_NAMES[400], "data": {"message": why}}
    return Response(400, encode({**plain, "success": False, "error": why}))


def _fixed_route(path: str, summary: str, kind: Any, value: Any) -> Route:
    return Route(
        method="GET", path=path, handler=fixed_response(value), access="token", summary=summary, response=kind
    )


_HEALTH = Healthy(healthy=True, version=VERSION)
_CONSOLE = Console(console_managed_providers=(), switchable_org_count=0)

ROUTES: tuple[Route, ...] = (
    _fixed_route("/global/health", "Check that the server is alive", Healthy, _HEALTH),
    _fixed_route("/lsp", "List language servers (always empty)", tuple[str, ...], ()),
    _fixed_route("/formatter", "List formatters (always empty)", tuple[str, ...], ()),
    _fixed_route("/experimental/console", "Get the OpenCode account (always none)", Console, _CONSOLE),
    _fixed_route(
        "/experimental/console/orgs", "List OpenCode organizations (always empty)", Orgs, Orgs(orgs=())
    ),
    _fixed_route("/experimental/worktree", "List worktrees (always empty)", tuple[str, ...], ()),
    _fixed_route("/experimental/workspace", "List workspaces (always empty)", tuple[str, ...], ()),
    _fixed_route(
        "/experimental/workspace/status", "List workspace statuses (always empty)", tuple[str, ...], ()
    ),
    _fixed_route(
        "/experimental/workspace/adapter", "List workspace adapters (always empty)", tuple[str, ...], ()
    ),
    Route(
        method="GET",
        path="/experimental/tool/ids",
        handler=tool_ids,
        access="token",
        summary="List the names of a directory's tools",
        query=(DIRECTORY_PARAM,),
        headers=(DIRECTORY_HEADER_PARAM,),
        response=tuple[str, ...],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/experimental/tool",
        handler=tools,
        access="token",
        summary="List the tools of a directory as models see them",
        query=(
            DIRECTORY_PARAM,
            Param("provider", "Provider of the model", least=1),
            Param("model", "The model; all get the same tools", least=1),
        ),
        headers=(DIRECTORY_HEADER_PARAM,),
        response=tuple[ToolInfo, ...],
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/log",
        handler=log,
        access="token",
        summary="Write a line to the server's log",
        body=LogLine,
        response=bool,
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/global/upgrade",
        handler=upgrade,
        access="token",
        summary="Upgrade the server (always refused)",
        response=dict[str, Any],
        statuses=(400,),
    ),
)
