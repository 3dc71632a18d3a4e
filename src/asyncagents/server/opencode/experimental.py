"""Other routes of OpenCode's clients: tools, log, and fixed responses for unsupported features."""

import logging
from typing import Any, Literal

from asyncagents.domain.shape import Shape, encode
from asyncagents.engine.runtime.runtime import VERSION
from asyncagents.errors import InvalidInput
from asyncagents.server.http.body import read
from asyncagents.server.http.messages import NAMES, Answer, Request, shown
from asyncagents.server.opencode.workplace import workplace
from asyncagents.server.params import DIRECTED, DIRECTORY, one
from asyncagents.server.route import Handler, Param, Route, Site

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


def always(value: Any) -> Handler:
    """Make a handler that always returns `value`."""
    answer = shown(value)

    async def told(site: Site, request: Request) -> Answer:
        return answer

    return told


async def tool_ids(site: Site, request: Request) -> Answer:
    return shown(list((await workplace(site, request)).tools))


async def tools(site: Site, request: Request) -> Answer:
    """The tools are the same for every model."""
    if not one(request, "provider") or not one(request, "model"):
        raise InvalidInput("provider and model are required, as in ?provider=anthropic&model=…")
    specs = [tool.spec() for tool in (await workplace(site, request)).tools.values()]
    return shown(
        [ToolInfo(id=spec.name, description=spec.description, parameters=spec.parameters) for spec in specs]
    )


async def log(site: Site, request: Request) -> Answer:
    """The entry is escaped into one line."""
    line = read(request, LogLine)
    extra = f" {line.extra!r}" if line.extra else ""
    told = f"{line.service!r}: {line.message!r}{extra}"[:LONGEST_LOG]
    _log.log(_LEVELS[line.level], "action=client_log %s", told)
    return shown(True)


async def upgrade(site: Site, request: Request) -> Answer:
    """The body has both our error shape and OpenCode's `success` and `error`."""
    why = "upgrading over HTTP is not supported: run `pip install -U asyncagents` where the server runs"
    plain = {"name": NAMES[400], "data": {"message": why}}
    return Answer(400, encode({**plain, "success": False, "error": why}))


def _reading(path: str, summary: str, kind: Any, value: Any) -> Route:
    return Route(method="GET", path=path, handler=always(value), access="token", summary=summary, answer=kind)


_HEALTH = Healthy(healthy=True, version=VERSION)
_CONSOLE = Console(console_managed_providers=(), switchable_org_count=0)

ROUTES: tuple[Route, ...] = (
    _reading("/global/health", "Check that the server is alive", Healthy, _HEALTH),
    _reading("/lsp", "List language servers (always empty)", tuple[str, ...], ()),
    _reading("/formatter", "List formatters (always empty)", tuple[str, ...], ()),
    _reading("/experimental/console", "Get the OpenCode account (always none)", Console, _CONSOLE),
    _reading("/experimental/console/orgs", "List OpenCode organizations (always empty)", Orgs, Orgs(orgs=())),
    _reading("/experimental/worktree", "List worktrees (always empty)", tuple[str, ...], ()),
    _reading("/experimental/workspace", "List workspaces (always empty)", tuple[str, ...], ()),
    _reading("/experimental/workspace/status", "List workspace statuses (always empty)", tuple[str, ...], ()),
    _reading(
        "/experimental/workspace/adapter", "List workspace adapters (always empty)", tuple[str, ...], ()
    ),
    Route(
        method="GET",
        path="/experimental/tool/ids",
        handler=tool_ids,
        access="token",
        summary="List the names of a directory's tools",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=tuple[str, ...],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/experimental/tool",
        handler=tools,
        access="token",
        summary="List the tools of a directory as models see them",
        query=(
            DIRECTORY,
            Param("provider", "Provider of the model", least=1),
            Param("model", "The model; all get the same tools", least=1),
        ),
        headers=(DIRECTED,),
        answer=tuple[ToolInfo, ...],
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/log",
        handler=log,
        access="token",
        summary="Write a line to the server's log",
        body=LogLine,
        answer=bool,
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/global/upgrade",
        handler=upgrade,
        access="token",
        summary="Upgrade the server (always refused)",
        answer=dict[str, Any],
        statuses=(400,),
    ),
)
