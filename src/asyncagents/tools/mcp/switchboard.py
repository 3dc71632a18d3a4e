"""Show, enable, disable and add the MCP servers of a directory at run time."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from asyncagents.config.config import Config, McpConfig
from asyncagents.config.env import Environment
from asyncagents.config.load import load
from asyncagents.config.trust import project_root
from asyncagents.engine.workplace.mcp import ServerState
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.errors import NotFound
from asyncagents.tools.mcp.client import Link, Wanted
from asyncagents.tools.mcp.servers import Servers, wanted

Enter: TypeAlias = Callable[[str], Awaitable[Workplace]]


def switches(
    environment: Environment, servers: Servers | None, config: Config | None, enter: Enter
) -> "Switches | None":
    """Create the control, if there are servers. `config`: overrides the files of every directory. `enter`:
    reads a directory's files."""
    return None if servers is None else Switches(environment, servers, config, enter)


class Switches:
    def __init__(
        self, environment: Environment, servers: Servers, config: Config | None, enter: Enter
    ) -> None:
        self._environment = environment
        self._servers = servers
        self._config = config
        self._enter = enter

    async def states(self, directory: str, *, seconds: float) -> dict[str, ServerState]:
        await self._enter(directory)
        links = {link.name: link for link in self._servers.links(directory)}
        await _begun(list(links.values()), seconds)
        return {each.name: _state(links.get(each.name)) for each in self._servers.known(directory)}

    async def switch(self, directory: str, name: str, *, on: bool) -> None:
        await self._enter(directory)
        if not any(each.name == name for each in self._servers.known(directory)):
            raise NotFound("MCP server", name)
        self._servers.choose(directory, name, on)

    async def add(self, directory: str, name: str, config: McpConfig) -> None:
        await self._enter(directory)
        server = await asyncio.to_thread(partial(self._wanted, directory, name, config))
        self._servers.choose(directory, name, server)

    def _wanted(self, directory: str, name: str, server: McpConfig) -> Wanted:
        """Build the spec of an added server; its environment holds no key of ours."""
        config = self._config or load(self._environment, directory=Path(directory)).config
        root = project_root(self._environment, Path(directory))
        return wanted(self._environment, replace(config, mcp={name: server}), root)[0]


async def _begun(links: list[Link], seconds: float) -> None:
    """Start clients that were never tried, and wait up to `seconds` for them; 0 does not wait."""
    for link in links:
        if not link.connected and not link.tried.is_set():
            link.begin()
    if not seconds:
        return
    waiting = [link for link in links if not link.tried.is_set()]
    try:
        async with asyncio.timeout(seconds):
            for link in waiting:
                await link.tried.wait()
    except TimeoutError:
        return


def _state(link: Link | None) -> ServerState:
    if link is None:
        return ServerState(status="disabled")
    if link.connected:
        return ServerState(status="connected")
    return ServerState(status="failed", why=link.why) if link.why else ServerState(status="waiting")
