"""`/mcp`: the servers of tools of a directory, and how people switch them."""

from collections.abc import Awaitable
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, assert_never

from msgspec import field

from asyncagents.config.config import McpConfig
from asyncagents.domain.shape import Shape
from asyncagents.engine.served import ServerState, Switchboard
from asyncagents.errors import ConfigError, InvalidInput, NotFound
from asyncagents.server.body import read
from asyncagents.server.given import DIRECTED, DIRECTORY, directory, path_id
from asyncagents.server.http import Answer, Request, shown
from asyncagents.server.place import workplace
from asyncagents.server.route import Handler, Route, Site

SECONDS = 10.0
"""So long the answer to an added server waits until it is started."""
LONGEST_NAME = 64
NONE_HERE = "there are no MCP servers in this runtime: it works without the files of a directory"
NO_LOGIN = (
    "this server does not log in to MCP servers: give {} what it wants to see as mcp.{}.headers in the config"
)
WAITING = "it is being started; ask again in a moment"
T = TypeVar("T")


class McpConnected(Shape, frozen=True, kw_only=True, tag_field="status", tag="connected"):
    pass


class McpDisabled(Shape, frozen=True, kw_only=True, tag_field="status", tag="disabled"):
    pass


class McpFailed(Shape, frozen=True, kw_only=True, tag_field="status", tag="failed"):
    error: str


McpStatus: TypeAlias = McpConnected | McpDisabled | McpFailed


class NewServer(Shape, frozen=True, kw_only=True):
    """`timeout` in ms. `oauth`: only false can be given."""

    type: Literal["local", "remote"]
    command: tuple[str, ...] = ()
    cwd: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    enabled: bool = True
    timeout: int | None = None
    oauth: Any = None


class AddServer(Shape, frozen=True, kw_only=True):
    name: str
    config: NewServer


class ResourceInfo(Shape, frozen=True, kw_only=True):
    name: str
    uri: str
    client: str
    description: str | None = None
    mime_type: str | None = None


async def states(site: Site, request: Request) -> Answer:
    """As they are now: those that are wanted and not there yet are started, and not waited for."""
    if site.runtime.switchboard is None:
        return shown({})
    return shown(await _states(site, request, seconds=0))


async def _states(site: Site, request: Request, *, seconds: float) -> dict[str, McpStatus]:
    """OpenCode has no word for a server that is being started: it has failed so far, and says why."""
    found = await _asked(_board(site).states(directory(site, request), seconds=seconds))
    return {name: _status(state) for name, state in found.items()}


def _status(state: ServerState) -> McpStatus:
    match state.status:
        case "connected":
            return McpConnected()
        case "disabled":
            return McpDisabled()
        case "failed" | "waiting":
            return McpFailed(error=state.why or WAITING)
        case _:
            assert_never(state.status)


async def add(site: Site, request: Request) -> Answer:
    """Until the server ends: what is to stay is written in the files of the directory."""
    new = read(request, AddServer)
    if not new.name or len(new.name) > LONGEST_NAME or not new.name.isprintable():
        raise InvalidInput(f"name is a text of up to {LONGEST_NAME} characters")
    await _asked(_board(site).add(directory(site, request), new.name, _config(new.config)))
    return shown(await _states(site, request, seconds=SECONDS))


def _config(new: NewServer) -> McpConfig:
    if new.oauth:
        raise InvalidInput("oauth is not done here: leave it out, and give what the server wants as headers")
    if new.type == "local" and not (new.command and new.command[0]):
        raise InvalidInput("a local server needs a command: the program and its arguments, each a text")
    if new.type == "remote" and not (new.url or "").startswith(("http://", "https://")):
        raise InvalidInput("a remote server needs a url that begins with https:// or http://")
    if new.timeout is not None and new.timeout < 1:
        raise InvalidInput("timeout is a number of milliseconds, 1 or more")
    return McpConfig(
        type=new.type,
        command=new.command,
        cwd=new.cwd,
        environment=new.environment,
        url=new.url,
        headers=new.headers,
        enabled=new.enabled,
        timeout_seconds=None if new.timeout is None else new.timeout / 1000,
    )


def _switching(*, on: bool) -> Handler:
    async def switch(site: Site, request: Request) -> Answer:
        where, name = directory(site, request), path_id(request, "name", "MCP server")
        await _asked(_board(site).switch(where, name, on=on))
        return shown(True)

    return switch


async def no_login(site: Site, request: Request) -> NoReturn:
    name = path_id(request, "name", "MCP server")
    if name not in await _asked(_board(site).states(directory(site, request), seconds=0)):
        raise NotFound("MCP server", name)
    raise InvalidInput(NO_LOGIN.format(name, name))


async def resources(site: Site, request: Request) -> Answer:
    """By the server and the name; of those that cannot be reached, none."""
    served = (await workplace(site, request)).served
    found = await served.list_resources() if served is not None else ()
    return shown(
        {
            f"{each.server}:{each.uri}": ResourceInfo(
                name=each.name,
                uri=each.uri,
                client=each.server,
                description=each.description or None,
                mime_type=each.mime or None,
            )
            for each in found
        }
    )


def _board(site: Site) -> Switchboard:
    if site.runtime.switchboard is None:
        raise InvalidInput(NONE_HERE)
    return site.runtime.switchboard


async def _asked(work: Awaitable[T]) -> T:
    """A directory whose files cannot be used says which."""
    try:
        return await work
    except ConfigError as error:
        raise InvalidInput(str(error)) from error


_AT = "/mcp/{name}"


def _posting(method: Literal["POST", "DELETE"], path: str, handler: Handler, summary: str) -> Route:
    return Route(
        method=method,
        path=path,
        handler=handler,
        access="token",
        summary=summary,
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=bool,
        statuses=(400, 404),
    )


_REFUSED = "Refused: MCP servers are logged in to with headers of the configuration"

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/mcp",
        handler=states,
        access="token",
        summary="MCP servers of a directory, as they are now; those that are not there yet are started",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=dict[str, McpStatus],
        statuses=(400,),
    ),
    Route(
        method="POST",
        path="/mcp",
        handler=add,
        access="token",
        summary="Add an MCP server to a directory until this server ends",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        body=AddServer,
        answer=dict[str, McpStatus],
        statuses=(400,),
    ),
    Route(
        method="GET",
        path="/experimental/resource",
        handler=resources,
        access="token",
        summary="What MCP servers of a directory have to read",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=dict[str, ResourceInfo],
        statuses=(400,),
    ),
    _posting("POST", f"{_AT}/connect", _switching(on=True), "Switch an MCP server on, or start it again"),
    _posting("POST", f"{_AT}/disconnect", _switching(on=False), "Switch an MCP server off"),
    _posting("POST", f"{_AT}/auth", no_login, _REFUSED),
    _posting("DELETE", f"{_AT}/auth", no_login, _REFUSED),
    _posting("POST", f"{_AT}/auth/callback", no_login, _REFUSED),
    _posting("POST", f"{_AT}/auth/authenticate", no_login, _REFUSED),
)
