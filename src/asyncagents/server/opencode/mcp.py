"""`/mcp`: MCP servers of a directory: their states, adding and switching them."""

from collections.abc import Awaitable
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, assert_never

from msgspec import field

from asyncagents.config.config import McpConfig
from asyncagents.domain.shape import Shape
from asyncagents.engine.runtime.mcp_servers import NO_SERVERS
from asyncagents.engine.workplace.mcp import McpControl, McpServerState
from asyncagents.errors import ConfigError, InvalidInput, NotFound
from asyncagents.server.http.body import read_body
from asyncagents.server.http.messages import Request, Response, json_response
from asyncagents.server.opencode.workplace import request_workplace
from asyncagents.server.params import directory, path_id
from asyncagents.server.route import Routes, ServerContext

routes = Routes()

START_SECONDS = 10.0
"""Max seconds that the response to an added server waits for its start."""
LONGEST_NAME = 64
NO_LOGIN = "login to MCP servers is not supported: give {} its credentials as mcp.{}.headers in the config"
STARTING = "the server is starting; ask again in a moment"
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


@routes.get("/mcp", access="token", directory=True, response=dict[str, McpStatus])
async def server_states(server: ServerContext, request: Request) -> Response:
    """List the MCP servers of a directory and their states.

    Returns the current states. Enabled servers that do not run yet are started, without waiting."""
    if server.runtime.mcp_control is None:
        return json_response({})
    return json_response(await _statuses(server, request, seconds=0))


async def _statuses(server: ServerContext, request: Request, *, seconds: float) -> dict[str, McpStatus]:
    """Return the states; a starting server is reported as failed, since OpenCode has no such state."""
    found = await _translate_config_error(
        _mcp_control(server).states(directory(server, request), seconds=seconds)
    )
    return {name: _status(state) for name, state in found.items()}


def _status(state: McpServerState) -> McpStatus:
    match state.status:
        case "connected":
            return McpConnected()
        case "disabled":
            return McpDisabled()
        case "failed" | "waiting":
            return McpFailed(error=state.why or STARTING)
        case _:
            assert_never(state.status)


@routes.post("/mcp", access="token", directory=True, body=AddServer, response=dict[str, McpStatus])
async def add(server: ServerContext, request: Request) -> Response:
    """Add an MCP server to a directory until the server stops.

    The server stays until this process ends; to keep it, add it to the config file of the directory."""
    new = read_body(request, AddServer)
    if not new.name or len(new.name) > LONGEST_NAME or not new.name.isprintable():
        raise InvalidInput(f"name must be 1 to {LONGEST_NAME} printable characters")
    await _translate_config_error(
        _mcp_control(server).add(directory(server, request), new.name, _config(new.config))
    )
    return json_response(await _statuses(server, request, seconds=START_SECONDS))


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


@routes.get("/experimental/resource", access="token", directory=True, response=dict[str, ResourceInfo])
async def resources(server: ServerContext, request: Request) -> Response:
    """List the MCP resources of a directory.

    Keyed by server and URI; resources of unreachable servers are missing."""
    served = (await request_workplace(server, request)).mcp_resources
    found = await served.list_resources() if served is not None else ()
    return json_response(
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


@routes.post("/mcp/{name}/connect", access="token", directory=True, response=bool)
async def connect(server: ServerContext, request: Request) -> Response:
    """Connect an MCP server, or restart it."""
    return await _switch(server, request, on=True)


@routes.post("/mcp/{name}/disconnect", access="token", directory=True, response=bool)
async def disconnect(server: ServerContext, request: Request) -> Response:
    """Disconnect an MCP server."""
    return await _switch(server, request, on=False)


async def _switch(server: ServerContext, request: Request, *, on: bool) -> Response:
    where, name = directory(server, request), path_id(request, "name", "MCP server")
    await _translate_config_error(_mcp_control(server).switch(where, name, on=on))
    return json_response(True)


@routes.post("/mcp/{name}/auth/authenticate", access="token", directory=True, response=bool)
@routes.post("/mcp/{name}/auth/callback", access="token", directory=True, response=bool)
@routes.delete("/mcp/{name}/auth", access="token", directory=True, response=bool)
@routes.post("/mcp/{name}/auth", access="token", directory=True, response=bool)
async def refuse_login(server: ServerContext, request: Request) -> NoReturn:
    """Log in to an MCP server (always refused: use headers in the config)."""
    name = path_id(request, "name", "MCP server")
    if name not in await _translate_config_error(
        _mcp_control(server).states(directory(server, request), seconds=0)
    ):
        raise NotFound("MCP server", name)
    raise InvalidInput(NO_LOGIN.format(name, name))


def _mcp_control(server: ServerContext) -> McpControl:
    if server.runtime.mcp_control is None:
        raise InvalidInput(NO_SERVERS)
    return server.runtime.mcp_control


async def _translate_config_error(work: Awaitable[T]) -> T:
    """Await `work` and raise its `ConfigError` as `InvalidInput`."""
    try:
        return await work
    except ConfigError as error:
        raise InvalidInput(str(error)) from error
