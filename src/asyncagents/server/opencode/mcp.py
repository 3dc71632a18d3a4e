"""`/mcp`: MCP servers of a directory: their states, adding and switching them."""

from collections.abc import Awaitable
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, assert_never

from msgspec import field

from asyncagents.config.config import McpConfig
from asyncagents.domain.shape import Shape
from asyncagents.engine.workplace.mcp import ServerState, Switchboard
from asyncagents.errors import ConfigError, InvalidInput, NotFound
from asyncagents.server.http.body import read
from asyncagents.server.http.messages import Answer, Request, shown
from asyncagents.server.opencode.workplace import workplace
from asyncagents.server.params import DIRECTED, DIRECTORY, directory, path_id
from asyncagents.server.route import Handler, Route, Site

SECONDS = 10.0
"""Max seconds that the response to an added server waits for its start."""
LONGEST_NAME = 64
NONE_HERE = "this runtime has no MCP servers: it was opened without config files"
NO_LOGIN = "login to MCP servers is not supported: give {} its credentials as mcp.{}.headers in the config"
WAITING = "the server is starting; ask again in a moment"
T = TypeVar("T")


class McpConnected(Shape, frozen=True, kw_only=True, tag_field="status", tag="connected"):
    pass


class McpDisabled(Shape, frozen=True, kw_only=True, tag_field="status", tag="disabled"):
    pass


class McpFailed(Shape, frozen=True, kw_only=True, tag_field="status", tag="failed"):
    error: str


McpStatus: TypeAlias = McpConnected | McpDisabled | McpFailed


class NewServer(Shape, frozen=True, kw_only=True):
    """`timeout` in ms. `oauth`: only false is supported."""

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
    """Returns the current states. Enabled servers that do not run yet are started, without waiting."""
    if site.runtime.switchboard is None:
        return shown({})
    return shown(await _states(site, request, seconds=0))


async def _states(site: Site, request: Request, *, seconds: float) -> dict[str, McpStatus]:
    """Return the states; a starting server is reported as failed, since OpenCode has no such state."""
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
    """The server stays until this process ends; to keep it, add it to the config file of the directory."""
    new = read(request, AddServer)
    if not new.name or len(new.name) > LONGEST_NAME or not new.name.isprintable():
        raise InvalidInput(f"name must be 1 to {LONGEST_NAME} printable characters")
    await _asked(_board(site).add(directory(site, request), new.name, _config(new.config)))
    return shown(await _states(site, request, seconds=SECONDS))


def _config(new: NewServer) -> McpConfig:
    if new.oauth:
        raise InvalidInput("oauth is not supported: omit it, and give the credentials as headers")
    if new.type == "local" and not (new.command and new.command[0]):
        raise InvalidInput("a local server needs a command: the program and its arguments, each a text")
    if new.type == "remote" and not (new.url or "").startswith(("http://", "https://")):
        raise InvalidInput("a remote server needs a url that begins with https:// or http://")
    if new.timeout is not None and new.timeout < 1:
        raise InvalidInput("timeout must be a number of milliseconds, 1 or more")
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
    """Keyed by server and URI; resources of unreachable servers are missing."""
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
    """Await `work` and raise its `ConfigError` as `InvalidInput`."""
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


_REFUSED = "Log in to an MCP server (always refused: use headers in the config)"

ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/mcp",
        handler=states,
        access="token",
        summary="List the MCP servers of a directory and their states",
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
        summary="Add an MCP server to a directory until the server stops",
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
        summary="List the MCP resources of a directory",
        query=(DIRECTORY,),
        headers=(DIRECTED,),
        answer=dict[str, ResourceInfo],
        statuses=(400,),
    ),
    _posting("POST", f"{_AT}/connect", _switching(on=True), "Connect an MCP server, or restart it"),
    _posting("POST", f"{_AT}/disconnect", _switching(on=False), "Disconnect an MCP server"),
    _posting("POST", f"{_AT}/auth", no_login, _REFUSED),
    _posting("DELETE", f"{_AT}/auth", no_login, _REFUSED),
    _posting("POST", f"{_AT}/auth/callback", no_login, _REFUSED),
    _posting("POST", f"{_AT}/auth/authenticate", no_login, _REFUSED),
)
