"""Other routes of OpenCode's clients: tools, log, and fixed responses for unsupported features."""

import logging
from typing import Any, Literal

from asyncagents.domain.shape import Shape, encode
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import ERROR_NAMES, Request, Response, json_response
from asyncagents.server.opencode.workplace import request_workplace
from asyncagents.server.params import query_text
from asyncagents.server.route import Param, Routes, ServerContext
from asyncagents.version import VERSION

routes = Routes()

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


def _add_fixed(path: str, summary: str, value: Any = (), kind: Any = tuple[str, ...]) -> None:
    """Add a route that always returns `value`."""
    answer = json_response(value)

    @routes.get(path, access="token", summary=summary, response=kind)
    async def handle(server: ServerContext, request: Request) -> Response:
        return answer


_HEALTH = Healthy(healthy=True, version=VERSION)
_CONSOLE = Console(console_managed_providers=(), switchable_org_count=0)

_add_fixed("/global/health", "Check that the server is alive", _HEALTH, Healthy)
_add_fixed("/lsp", "List language servers (always empty)")
_add_fixed("/formatter", "List formatters (always empty)")
_add_fixed("/experimental/console", "Get the OpenCode account (always none)", _CONSOLE, Console)
_add_fixed("/experimental/console/orgs", "List OpenCode organizations (always empty)", Orgs(orgs=()), Orgs)
_add_fixed("/experimental/worktree", "List worktrees (always empty)")
_add_fixed("/experimental/workspace", "List workspaces (always empty)")
_add_fixed("/experimental/workspace/status", "List workspace statuses (always empty)")
_add_fixed("/experimental/workspace/adapter", "List workspace adapters (always empty)")


@routes.get("/experimental/tool/ids", access="token", directory=True, response=tuple[str, ...])
async def tool_ids(server: ServerContext, request: Request) -> Response:
    """List the names of a directory's tools."""
    return json_response(list((await request_workplace(server, request)).tools))


@routes.get(
    "/experimental/tool",
    access="token",
    directory=True,
    query=(
        Param("provider", "Provider of the model", least=1),
        Param("model", "The model; all get the same tools", least=1),
    ),
    response=tuple[ToolInfo, ...],
)
async def tools(server: ServerContext, request: Request) -> Response:
    """List the tools of a directory as models see them.

    The tools are the same for every model."""
    if not query_text(request, "provider") or not query_text(request, "model"):
        raise InvalidInput("provider and model are required, as in ?provider=anthropic&model=…")
    specs = [tool.spec() for tool in (await request_workplace(server, request)).tools.values()]
    return json_response(
        [ToolInfo(id=spec.name, description=spec.description, parameters=spec.parameters) for spec in specs]
    )


@routes.post("/log", access="token", body=LogLine, response=bool)
async def log(server: ServerContext, request: Request) -> Response:
    """Write a line to the server's log.

    The entry is escaped into one line."""
    line = read_body(request, LogLine)
    extra = f" {line.extra!r}" if line.extra else ""
    text = f"{line.service!r}: {line.message!r}{extra}"[:LONGEST_LOG]
    _log.log(_LEVELS[line.level], "action=client_log %s", text)
    return json_response(True)


@routes.post("/global/upgrade", access="token", response=dict[str, Any])
async def upgrade(server: ServerContext, request: Request) -> Response:
    """Upgrade the server (always refused).

    The body has both our error shape and OpenCode's `success` and `error`."""
    why = "upgrading over HTTP is not supported: run `pip install -U asyncagents` where the server runs"
    plain = {"name": ERROR_NAMES[400], "data": {"message": why}}
    return Response(400, encode({**plain, "success": False, "error": why}))
