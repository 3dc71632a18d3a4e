"""What OpenCode's clients read besides: tools, and what there is none of here."""

import logging
from typing import Any, Literal

from asyncagents.domain.shape import Shape, encode
from asyncagents.engine.runtime import VERSION
from asyncagents.errors import InvalidInput
from asyncagents.server.body import read
from asyncagents.server.given import DIRECTED, DIRECTORY, one
from asyncagents.server.http import NAMES, Answer, Request, shown
from asyncagents.server.place import workplace
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
    """The same answer to everybody."""
    answer = shown(value)

    async def told(site: Site, request: Request) -> Answer:
        return answer

    return told


async def tool_ids(site: Site, request: Request) -> Answer:
    return shown(list((await workplace(site, request)).tools))


async def tools(site: Site, request: Request) -> Answer:
    """The same for every model."""
    if not one(request, "provider") or not one(request, "model"):
        raise InvalidInput("say whose tools: provider and model, as in ?provider=anthropic&model=…")
    specs = [tool.spec() for tool in (await workplace(site, request)).tools.values()]
    return shown(
        [ToolInfo(id=spec.name, description=spec.description, parameters=spec.parameters) for spec in specs]
    )


async def log(site: Site, request: Request) -> Answer:
    """One line, whatever is in it."""
    line = read(request, LogLine)
    extra = f" {line.extra!r}" if line.extra else ""
    told = f"{line.service!r}: {line.message!r}{extra}"[:LONGEST_LOG]
    _log.log(_LEVELS[line.level], "a client says: %s", told)
    return shown(True)


async def upgrade(site: Site, request: Request) -> Answer:
    """As a refusal, and as its clients look for it."""
    why = "a server is not upgraded over HTTP: run `pip install -U asyncagents` where it runs"
    plain = {"name": NAMES[400], "data": {"message": why}}
    return Answer(400, encode({**plain, "success": False, "error": why}))


def _reading(path: str, summary: str, kind: Any, value: Any) -> Route:
    return Route(method="GET", path=path, handler=always(value), access="token", summary=summary, answer=kind)


_HEALTH = Healthy(healthy=True, version=VERSION)
_CONSOLE = Console(console_managed_providers=(), switchable_org_count=0)

ROUTES: tuple[Route, ...] = (
    _reading("/global/health", "Whether the server lives", Healthy, _HEALTH),
    _reading("/lsp", "Language servers: there are none here", tuple[str, ...], ()),
    _reading("/formatter", "Formatters: there are none here", tuple[str, ...], ()),
    _reading("/experimental/console", "Accounts at OpenCode: there are none here", Console, _CONSOLE),
    _reading("/experimental/console/orgs", "Their organisations", Orgs, Orgs(orgs=())),
    _reading("/experimental/worktree", "Worktrees for sessions: there are none here", tuple[str, ...], ()),
    _reading("/experimental/workspace", "Workspaces: there are none here", tuple[str, ...], ()),
    _reading("/experimental/workspace/status", "How they do", tuple[str, ...], ()),
    _reading("/experimental/workspace/adapter", "How one could be made", tuple[str, ...], ()),
    Route(
        method="GET",
        path="/experimental/tool/ids",
        handler=tool_ids,
        access="token",
        summary="Names of the tools of a directory",
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
        summary="Tools of a directory as models are told of them",
        query=(
            DIRECTORY,
            Param("provider", "Whose model", least=1),
            Param("model", "Which; all are told the same", least=1),
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
        summary="Write a line into the server's log",
        body=LogLine,
        answer=bool,
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/global/upgrade",
        handler=upgrade,
        access="token",
        summary="Refused: a server is upgraded where it runs",
        answer=dict[str, Any],
        statuses=(400,),
    ),
)
