"""Show, enable, disable and add the MCP servers of a directory at run time."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from asyncagents.config.config import Config, McpConfig
from asyncagents.config.env import Environment
from asyncagents.config.load import load_config
from asyncagents.config.trust import project_root
from asyncagents.domain.conversation.mcp_server import SessionMcpServer
from asyncagents.domain.id import SessionId
from asyncagents.engine.workplace.mcp import McpServerState, missing_state
from asyncagents.engine.workplace.project import Project
from asyncagents.engine.workplace.session_servers import SessionServers, TreeServers
from asyncagents.engine.workplace.workplace import Workplace
from asyncagents.errors import ConfigError, NotFound
from asyncagents.tools.mcp.client import McpClient, ServerSpec
from asyncagents.tools.mcp.servers import Servers, configured_servers

MOST_GIVEN = 256
"""Servers of sessions in one directory, and directories, whose code is guarded."""


class DirectoryReader(Protocol):
    """Reads the files of directories."""

    async def at(self, directory: str) -> Workplace: ...

    def forget(self, directory: str) -> None: ...


def create_server_control(
    environment: Environment, servers: Servers | None, config: Config | None, workplaces: DirectoryReader
) -> "ServerControl | None":
    """Create the control, if there are servers. `config`: overrides the files of every directory."""
    return None if servers is None else ServerControl(environment, servers, config, workplaces)


class ServerControl:
    def __init__(
        self, environment: Environment, servers: Servers, config: Config | None, workplaces: DirectoryReader
    ) -> None:
        self._environment = environment
        self._servers = servers
        self._config = config
        self._workplaces = workplaces
        self._given: dict[str, tuple[McpConfig, ...]] = {}
        """Servers of sessions that were started, by directory; replaced as a whole, other threads read it."""
        self.session_servers = SessionServers()

    async def add_tools(
        self, directory: str, project: Project, tree: TreeServers | None, working: bool
    ) -> Project:
        """Return the project with the tools of its servers and of a tree's."""
        own = () if tree is None else await self._hold_servers(directory, tree)
        return await self._servers.add_tools(directory, project, working=working, own=own)

    async def _hold_servers(self, directory: str, tree: TreeServers) -> tuple[ServerSpec, ...]:
        """Return the servers of a tree of sessions, and keep them for a while; those without their values are
        left out."""
        wanted: dict[str, McpConfig] = {}
        for each in tree.servers:
            config = self.session_servers.find_config(tree.root_id, each)
            if config is None:
                why = missing_state(each).why
                self._servers.warn_once(
                    f"session={tree.root_id} action=start_server mcp_server={each.name}: {why}"
                )
            else:
                wanted[each.name] = replace(config, cwd=directory)
        specs = self._servers.held.known_specs((tree.root_id, directory), wanted)
        if specs is None:
            try:
                specs = await asyncio.to_thread(partial(self._build_specs, directory, wanted))
            except ConfigError as error:
                self._servers.warn_once(f"session={tree.root_id} action=start_servers: {error}")
                return ()
            self._note_given(directory, tuple(wanted.values()))
        self._servers.hold(directory, tree, wanted, specs)
        return specs

    def _note_given(self, directory: str, servers: tuple[McpConfig, ...]) -> None:
        """Have what the servers run guarded from now on: the project is built again."""
        known = self._given.get(directory, ())
        new = tuple(each for each in servers if each not in known)
        if new:
            others = [each for each in self._given if each != directory][-MOST_GIVEN:]
            kept = {each: self._given[each] for each in others}
            self._given = {**kept, directory: (*known, *new)[-MOST_GIVEN:]}
            self._workplaces.forget(directory)

    def with_given(self, config: Config, root: Path) -> Config:
        """Return a config that has the servers of sessions in this project as well."""
        given = [
            each
            for directory, servers in self._given.items()
            if Path(directory).is_relative_to(root)
            for each in servers
        ]
        extra = {f"{number} of sessions": each for number, each in enumerate(given)}
        return replace(config, mcp={**config.mcp, **extra}) if extra else config

    def tree_states(self, tree: TreeServers) -> dict[str, McpServerState]:
        held = self._servers.held.specs_of(tree.root_id)
        return {each.name: self._tree_state(tree.root_id, each, held.get(each.name)) for each in tree.servers}

    def _tree_state(
        self, root_id: SessionId, server: SessionMcpServer, held: ServerSpec | None
    ) -> McpServerState:
        if self.session_servers.find_config(root_id, server) is None:
            return missing_state(server)
        client = None if held is None else self._servers.find_client(held)
        return McpServerState(status="waiting") if client is None else _server_state(client)

    def change_tree(self, tree: TreeServers) -> None:
        self.session_servers.note_row(tree.root_id, tree.servers)
        found = {each.name: self.session_servers.find_config(tree.root_id, each) for each in tree.servers}
        wanted = {name: config for name, config in found.items() if config is not None}
        self._servers.retain(tree.root_id, wanted)

    def forget_tree(self, root_id: SessionId) -> None:
        self.session_servers.forget(root_id)
        self._servers.retain(root_id, {})

    async def states(self, directory: str, *, seconds: float) -> dict[str, McpServerState]:
        await self._workplaces.at(directory)
        links = {client.name: client for client in self._servers.clients(directory)}
        await _connect_all(list(links.values()), seconds)
        return {
            each.name: _server_state(links.get(each.name)) for each in self._servers.known_servers(directory)
        }

    async def switch(self, directory: str, name: str, *, on: bool) -> None:
        await self._workplaces.at(directory)
        if not any(each.name == name for each in self._servers.known_servers(directory)):
            raise NotFound("MCP server", name)
        self._servers.choose_server(directory, name, on)

    async def add(self, directory: str, name: str, config: McpConfig) -> None:
        await self._workplaces.at(directory)
        (server,) = await asyncio.to_thread(partial(self._build_specs, directory, {name: config}))
        self._servers.choose_server(directory, name, server)

    def _build_specs(self, directory: str, servers: dict[str, McpConfig]) -> tuple[ServerSpec, ...]:
        """Build the specs of servers that no file has; their environment holds no key of ours."""
        config = self._config or load_config(self._environment, directory=Path(directory)).config
        root = project_root(self._environment, Path(directory))
        return configured_servers(self._environment, replace(config, mcp=servers), root)


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
