"""MCP servers and their tools by directory; directories with the same server share one connection."""

import asyncio
import logging
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

import msgspec
from msgspec import Struct

from asyncagents.config.child_environment import child_environment
from asyncagents.config.config import Config, McpConfig
from asyncagents.config.env import Environment
from asyncagents.config.git_settings import ALWAYS, with_git_settings
from asyncagents.domain.agent.permission import DELEGATING
from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.call.server_task_state import ServerTaskEnded, ServerTaskWorking
from asyncagents.domain.id import SessionId
from asyncagents.engine.tool import (
    DEFAULT_TIMEOUT_SECONDS,
    AnyTool,
    Pending,
    PendingAtServer,
    Tool,
    ToolContext,
)
from asyncagents.engine.workplace.mcp import McpContent, McpPrompt, McpResource
from asyncagents.engine.workplace.project import Project
from asyncagents.engine.workplace.session_servers import TreeServers
from asyncagents.errors import ToolError
from asyncagents.tools.mcp.choices import ServerChoices
from asyncagents.tools.mcp.client import McpClient, ServerSpec
from asyncagents.tools.mcp.connection import McpConnection, ServerTool
from asyncagents.tools.mcp.held import IDLE_SECONDS, HeldServers
from asyncagents.tools.mcp.schema import names_tag
from asyncagents.tools.output.limit import limit_output, limit_result

STEP_WAIT_SECONDS = 30.0
"""How long a step waits for servers that were never connected; a later server joins a later step."""
LONGEST_NAME = 64
MOST_SCHEMA_BYTES = 100_000
MOST_WARNINGS = 1_000
MOST_JOINED = 1_000
"""Projects that are kept joined with the tools of servers."""
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")

_log = logging.getLogger(__name__)
T = TypeVar("T")


def configured_servers(environment: Environment, config: Config, root: Path) -> tuple[ServerSpec, ...]:
    """Return the servers of a configuration by name, including disabled ones."""
    if not config.mcp:
        return ()
    variables = with_git_settings(child_environment(environment, config), ALWAYS)
    return tuple(
        ServerSpec(
            name=name,
            config=server,
            folder=_server_folder(server.cwd, root, environment.home),
            variables={**variables, **server.environment},
        )
        for name, server in sorted(config.mcp.items())
    )


def _server_folder(cwd: str | None, root: Path, home: Path) -> Path:
    if cwd is None:
        return root
    return home / cwd[1:].lstrip("/") if cwd == "~" or cwd.startswith("~/") else root / cwd


def _join_servers(configured: tuple[ServerSpec, ...], own: tuple[ServerSpec, ...]) -> tuple[ServerSpec, ...]:
    """Return the servers of both, by name; those of the session win."""
    if not own:
        return configured
    wants = {each.name: each for each in (*configured, *own)}
    return tuple(wants[name] for name in sorted(wants))


class JoinedProject(Struct, frozen=True):
    """A project with the tools of servers, and what it was joined from."""

    base: Project
    versions: tuple[int, ...]
    project: Project


class Servers:
    """The MCP servers of all directories; a server starts when a session of its directory needs its tools."""

    def __init__(self, group: asyncio.TaskGroup, output: Path, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self.held = HeldServers(idle_seconds)
        self._idle_sweep: asyncio.Task[None] | None = None
        self._group = group
        self._output = output
        self._lock = threading.Lock()
        self._enabled: dict[str, tuple[ServerSpec, ...]] = {}
        self._configured: dict[str, tuple[ServerSpec, ...]] = {}
        self._choices = ServerChoices()
        self._clients: dict[bytes, McpClient] = {}
        self._joined: BoundedDict[tuple[str, tuple[McpClient, ...]], JoinedProject] = BoundedDict(MOST_JOINED)
        self._changed = False
        self._warned: set[str] = set()

    def set_servers(self, directory: str, servers: tuple[ServerSpec, ...]) -> None:
        """Replace the configured servers of a directory. May be called from any thread."""
        with self._lock:
            if servers:
                self._configured[directory] = servers
            else:
                self._configured.pop(directory, None)
            enabled = self._choices.enabled_servers(directory, servers)
            if enabled != self._enabled.get(directory, ()):
                self._enabled[directory] = enabled
                self._changed = True

    async def add_tools(
        self, directory: str, project: Project, *, working: bool, own: tuple[ServerSpec, ...] = ()
    ) -> Project:
        """Return the project with its servers' tools. `working`: wait for servers; late ones are left out.
        `own`: servers of the session, which replace those of the directory with the same name."""
        if self._changed:
            self._drop_unwanted()
        wants = _join_servers(self._enabled.get(directory, ()), own)
        if not wants:
            return project
        links = [self._client_of(each) for each in wants]
        if working:
            await self._connect_all(links)
        return self._project_with_tools(directory, project, links)

    def known_servers(self, directory: str) -> tuple[ServerSpec, ...]:
        """Return the configured and added servers of a directory, including disabled ones."""
        return self._choices.known_servers(directory, self._configured.get(directory, ()))

    def choose_server(self, directory: str, name: str, chosen: ServerSpec | bool) -> None:
        """Enable, disable or add a server; one that is not connected starts again without its backoff."""
        self._choices.record(directory, name, chosen)
        self.set_servers(directory, self._configured.get(directory, ()))
        for each in self._enabled.get(directory, ()):
            client = self._clients.get(_connection_key(each))
            if each.name == name and client is not None and not client.is_connected:
                self._clients.pop(_connection_key(each)).stop()
        self._drop_unwanted()

    def clients(self, directory: str) -> list[McpClient]:
        """Return the clients of a directory's enabled servers, started or not."""
        return [self._client_of(each) for each in self._enabled.get(directory, ())]

    def find_client(self, spec: ServerSpec) -> McpClient | None:
        """Return the client of a server that is used now."""
        return self._clients.get(_connection_key(spec))

    def hold(
        self,
        directory: str,
        tree: TreeServers,
        wanted: Mapping[str, McpConfig],
        specs: tuple[ServerSpec, ...],
    ) -> None:
        """Keep the servers of a tree of sessions while it works, and for a while after."""
        now = asyncio.get_running_loop().time()
        if self.held.hold(directory, tree, wanted=wanted, specs=specs, now=now):
            self._drop_unwanted()
        if self._idle_sweep is None or self._idle_sweep.done():
            self._idle_sweep = self._group.create_task(self._sweep_idle())

    async def _sweep_idle(self) -> None:
        """End the servers of trees at rest, until none is held."""
        now = asyncio.get_running_loop().time
        while (pause := self.held.seconds_to_next(now())) is not None:
            await asyncio.sleep(pause)
            if self.held.drop_idle(now()):
                self._drop_unwanted()

    def retain(self, root_id: SessionId, wanted: Mapping[str, McpConfig]) -> None:
        """End the servers of a tree of sessions that are not among the wanted ones."""
        self.held.retain(root_id, wanted)
        self._drop_unwanted()

    def stop(self) -> None:
        if self._idle_sweep is not None:
            self._idle_sweep.cancel()
        for client in self._clients.values():
            client.stop()

    def _drop_unwanted(self) -> None:
        """Stop the clients whose exact server no directory has enabled and no tree of sessions holds."""
        with self._lock:
            self._changed = False
            self._enabled = {directory: wants for directory, wants in self._enabled.items() if wants}
            keys = {_connection_key(each) for wants in self._enabled.values() for each in wants}
        keys.update(map(_connection_key, self.held.all_specs()))
        for key in [key for key in self._clients if key not in keys]:
            self._clients.pop(key).stop()
        self._drop_joined()

    def _drop_joined(self) -> None:
        """Drop projects that were joined with the tools of a client that is gone."""
        directories, clients = self._enabled.keys() | self.held.directories, set(self._clients.values())
        for directory, links in tuple(self._joined):
            if directory not in directories or not clients.issuperset(links):
                del self._joined[directory, links]

    def _client_of(self, spec: ServerSpec) -> McpClient:
        key = _connection_key(spec)
        if key not in self._clients:
            self._clients[key] = McpClient(spec, group=self._group, output=self._output)
        return self._clients[key]

    async def _connect_all(self, links: Sequence[McpClient]) -> None:
        """Start the clients that are not connected, and wait for those that were never tried."""
        for client in links:
            if not client.is_connected:
                client.start()
        new = [
            client for client in links if not client.first_try_done.is_set() and client.begun_at is not None
        ]
        if not new:
            return
        until = max(client.begun_at or 0.0 for client in new) + STEP_WAIT_SECONDS
        try:
            async with asyncio.timeout_at(until):
                for client in new:
                    await client.first_try_done.wait()
        except TimeoutError:
            late = ", ".join(client.name for client in new if not client.first_try_done.is_set())
            self.warn_once(f"action=wait mcp_servers={late}: not ready yet, the step goes on without them")

    def _project_with_tools(self, directory: str, project: Project, links: Sequence[McpClient]) -> Project:
        versions, key = tuple(client.version for client in links), (directory, tuple(links))
        known = self._joined.get(key)
        if known is not None and known.base is project and known.versions == versions:
            return known.project
        joined = project.with_server_tools(
            self._build_tools(project, links), ServerResources(links, self._output)
        )
        self._joined[key] = JoinedProject(project, versions, joined)
        return joined

    def _build_tools(self, project: Project, links: Sequence[McpClient]) -> list[AnyTool]:
        """Build the tools by server, then by name; the first tool of a name wins."""
        tools: dict[str, AnyTool] = {}
        for client in links:
            for tool in client.tools:
                name = tool_name(client.name, tool.name)
                taken = name in tools or name in project.tools or name in DELEGATING
                if why := f"there is another tool named {name}" if taken else _schema_problem(tool):
                    self.warn_once(f"action=skip_tool mcp_server={client.name} tool={tool.name}: {why}")
                else:
                    tools[name] = limit_output(_build_tool(client, tool, name), self._output)
        return list(tools.values())

    def warn_once(self, warning: str) -> None:
        if warning not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add(warning)
            _log.warning("%s", warning)


class ServerResources:
    """Resources, prompts and tasks of the MCP servers of one directory."""

    def __init__(self, links: Sequence[McpClient], output: Path) -> None:
        self._clients = {client.name: client for client in links}
        self._output = output

    async def list_resources(self) -> tuple[McpResource, ...]:
        return await _list_all(
            self._clients.values(), "list_resources", lambda connection: connection.list_resources()
        )

    async def read_resource(self, server: str, uri: str) -> tuple[McpContent, ...]:
        return await self._find_client(server).request(lambda connection: connection.read_resource(uri))

    async def list_prompts(self, command: str | None = None) -> tuple[McpPrompt, ...]:
        links = [
            client for name, client in self._clients.items() if (command or f"{name}:").startswith(f"{name}:")
        ]
        return await _list_all(links, "list_prompts", lambda connection: connection.list_prompts())

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> tuple[McpContent, ...]:
        return await self._find_client(server).request(
            lambda connection: connection.get_prompt(name, arguments)
        )

    async def task_state(self, server: str, task_id: str) -> ServerTaskWorking | ServerTaskEnded:
        state = await self._find_client(server).request(lambda connection: connection.task_state(task_id))
        if isinstance(state, ServerTaskEnded):
            return ServerTaskEnded(await limit_result(state.result, self._output))
        return state

    async def answer_task(self, server: str, task_id: str, responses: dict[str, dict[str, Any]]) -> None:
        await self._find_client(server).request(lambda connection: connection.answer_task(task_id, responses))

    async def cancel_task(self, server: str, task_id: str) -> None:
        await self._find_client(server).request(lambda connection: connection.cancel_task(task_id))

    def _find_client(self, server: str) -> McpClient:
        if server not in self._clients:
            known = ", ".join(self._clients)
            raise ToolError(f'There is no MCP server named "{server}" here; there are: {known}.')
        return self._clients[server]


async def _list_all(
    links: Iterable[McpClient], action: str, question: Callable[[McpConnection], Awaitable[tuple[T, ...]]]
) -> tuple[T, ...]:
    """Return what all servers list; log and leave out a server that fails."""
    found: list[T] = []
    for client in links:
        try:
            found += await client.request(question)
        except ToolError as error:
            _log.warning("action=%s mcp_server=%s: %s", action, client.name, error)
    return tuple(found)


@asynccontextmanager
async def open_servers(output: Path, *, idle_seconds: float = IDLE_SECONDS) -> AsyncIterator[Servers]:
    """Open the MCP servers; at the end of the block all are stopped with all processes they started."""
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        servers = Servers(group, output, idle_seconds=idle_seconds)
        try:
            yield servers
        except BaseException as error:  # noqa: BLE001  raised outside the group, which would wrap it
            failure = error
        servers.stop()
    if failure is not None:
        raise failure


def tool_name(server: str, tool: str) -> str:
    """Build a tool name that every provider accepts; one that is too long ends with a checksum."""
    name = _NOT_IN_NAME.sub("_", f"{server}_{tool}")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}_{crc32(f'{server}_{tool}'.encode('utf-8', 'replace')):08x}"


def _schema_problem(tool: ServerTool) -> str:
    """Return why a tool cannot be used: its schema is too large for every request, or has a tag of ours."""
    size = len(msgspec.json.encode(tool.parameters))
    if size > MOST_SCHEMA_BYTES:
        return f"its schema has {size} bytes, more than {MOST_SCHEMA_BYTES}"
    return "a name or a choice in its schema is a tag of asyncagents" if names_tag(tool.parameters) else ""


def _build_tool(client: McpClient, tool: ServerTool, name: str) -> AnyTool:
    async def run(args: dict[str, Any], context: ToolContext) -> Completed | Failed | Pending:
        answer = await client.call_tool(tool, args, context)
        if isinstance(answer, ServerTask):
            note = f"The MCP server {client.name} works on it."
            return PendingAtServer(server_task=answer, external_ref=answer.id, note=note)
        return answer

    return Tool(
        name,
        dict,
        run,
        effect=tool.effect,
        timeout=client.spec.config.timeout_seconds or DEFAULT_TIMEOUT_SECONDS,
        description=tool.description,
        parameters=tool.parameters,
    )


def _connection_key(spec: ServerSpec) -> bytes:
    """Key of a shared connection: name and config; for a local server also its folder and variables."""
    config = spec.config
    if config.type == "remote":
        return msgspec.json.encode((spec.name, config))
    return msgspec.json.encode((spec.name, config, str(spec.folder), spec.variables))
