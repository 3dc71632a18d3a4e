"""Show, enable, disable and add the MCP servers of a directory at run time."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from asyncagents.config.config import Config, McpConfig
from asyncagents.config.env import Environment
from asyncagents.config.load import load_config
from asyncagents.config.trust import project_root
from asyncagents.engine.workplace.mcp import McpServerState
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.errors import NotFound
from asyncagents.tools.mcp.client import McpClient, ServerSpec
from asyncagents.tools.mcp.servers import Servers, configured_servers

WorkplaceAt: TypeAlias = Callable[[str], Awaitable[Workplace]]


def create_server_control(
    environment: Environment, servers: Servers | None, config: Config | None, enter: WorkplaceAt
) -> "ServerControl | None":
    """Create the control, if there are servers. `config`: overrides the files of every directory. `enter`:
    reads a directory's files."""
    return None if servers is None else ServerControl(environment, servers, config, enter)


class ServerControl:
    def __init__(
        self, environment: Environment, servers: Servers, config: Config | None, enter: WorkplaceAt
    ) -> None:
        self._environment = environment
        self._servers = servers
        self._config = config
        self._enter = enter

    async def states(self, directory: str, *, seconds: float) -> dict[str, McpServerState]:
        await self._enter(directory)
        links = {client.name: client for client in self._servers.clients(directory)}
        await _connect_all(list(links.values()), seconds)
        return {
            each.name: _server_state(links.get(each.name)) for each in self._servers.known_servers(directory)
        }

    async def switch(self, directory: str, name: str, *, on: bool) -> None:
        await self._enter(directory)
        if not any(each.name == name for each in self._servers.known_servers(directory)):
            raise NotFound("MCP server", name)
        self._servers.choose_server(directory, name, on)

    async def add(self, directory: str, name: str, config: McpConfig) -> None:
        await self._enter(directory)
        server = await asyncio.to_thread(partial(self._server_spec, directory, name, config))
        self._servers.choose_server(directory, name, server)

    def _server_spec(self, directory: str, name: str, server: McpConfig) -> ServerSpec:
        """Build the spec of an added server; its environment holds no key of ours."""
        config = self._config or load_config(self._environment, directory=Path(directory)).config
        root = project_root(self._environment, Path(directory))
        return configured_servers(self._environment, replace(config, mcp={name: server}), root)[0]


async def _connect_all(links: list[McpClient], seconds: float) -> None:
    """Start clients that were never tried, and wait up to `seconds` for them; 0 does not wait."""
    for client in links:
        if not client.is_connected and not client.first_try_done.is_set():
            client.start()
    if not seconds:
        return
    waiting = [client for client in links if not client.first_try_done.is_set()]
    try:
        async with asyncio.timeout(seconds):
            for client in waiting:
                await client.first_try_done.wait()
    except TimeoutError:
        return


def _server_state(client: McpClient | None) -> McpServerState:
    if client is None:
        return McpServerState(status="disabled")
    if client.is_connected:
        return McpServerState(status="connected")
    return (
        McpServerState(status="failed", why=client.failure)
        if client.failure
        else McpServerState(status="waiting")
    )
