"""MCP servers and their tools by directory; directories with the same server share one connection."""

import asyncio
import logging
import re
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from asyncagents.config.child_environment import child_environment
from asyncagents.config.config import Config
from asyncagents.config.env import Environment
from asyncagents.config.git_settings import ALWAYS, with_git_settings
from asyncagents.domain.agent.permission import DELEGATING
from asyncagents.domain.call.call import Completed, Failed
from asyncagents.engine.tool import TEN_MINUTES, AnyTool, Tool, ToolContext
from asyncagents.engine.workplace.mcp import Content, ReadyPrompt, Resource
from asyncagents.engine.workplace.project import Project
from asyncagents.errors import ToolError
from asyncagents.tools.mcp.choices import Choices
from asyncagents.tools.mcp.client import Link, Wanted
from asyncagents.tools.mcp.connection import Offer
from asyncagents.tools.mcp.schema import names_tag
from asyncagents.tools.output.limit import capped

STEP_SECONDS = 30.0
"""How long a step waits for servers that were never connected; a later server joins a later step."""
LONGEST_NAME = 64
MOST_SCHEMA = 100_000
MOST_TOLD = 1_000
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")

_log = logging.getLogger(__name__)


def wanted(environment: Environment, config: Config, root: Path) -> tuple[Wanted, ...]:
    """Return the servers of a configuration by name, including disabled ones."""
    if not config.mcp:
        return ()
    variables = with_git_settings(child_environment(environment, config), ALWAYS)
    return tuple(
        Wanted(
            name=name,
            config=server,
            folder=_folder(server.cwd, root, environment.home),
            variables={**variables, **server.environment},
        )
        for name, server in sorted(config.mcp.items())
    )


def _folder(cwd: str | None, root: Path, home: Path) -> Path:
    if cwd is None:
        return root
    return home / cwd[1:].lstrip("/") if cwd == "~" or cwd.startswith("~/") else root / cwd


class Servers:
    """The MCP servers of all directories; a server starts when a session of its directory needs its tools."""

    def __init__(self, group: asyncio.TaskGroup, output: Path) -> None:
        self._group = group
        self._output = output
        self._lock = threading.Lock()
        self._wanted: dict[str, tuple[Wanted, ...]] = {}
        self._written: dict[str, tuple[Wanted, ...]] = {}
        self._choices = Choices()
        self._links: dict[bytes, Link] = {}
        self._joined: dict[str, tuple[Project, tuple[tuple[str, int], ...], Project]] = {}
        self._changed = False
        self._told: set[str] = set()

    def want(self, directory: str, servers: tuple[Wanted, ...]) -> None:
        """Replace the configured servers of a directory. May be called from any thread."""
        with self._lock:
            if servers:
                self._written[directory] = servers
            else:
                self._written.pop(directory, None)
            enabled = self._choices.enabled(directory, servers)
            if enabled != self._wanted.get(directory, ()):
                self._wanted[directory] = enabled
                self._changed = True

    async def join(self, directory: str, project: Project, *, working: bool) -> Project:
        """Return the project with its servers' tools. `working`: wait for servers; late ones are left out."""
        if self._changed:
            self._forget()
        wants = self._wanted.get(directory, ())
        if not wants:
            return project
        links = [self._link(each) for each in wants]
        if working:
            await self._begun(links)
        return self._with_tools(directory, project, links)

    def known(self, directory: str) -> tuple[Wanted, ...]:
        """Return the configured and added servers of a directory, including disabled ones."""
        return self._choices.known(directory, self._written.get(directory, ()))

    def choose(self, directory: str, name: str, chosen: Wanted | bool) -> None:
        """Enable, disable or add a server; one that is not connected starts again without its backoff."""
        self._choices.note(directory, name, chosen)
        self.want(directory, self._written.get(directory, ()))
        for each in self._wanted.get(directory, ()):
            link = self._links.get(_key(each))
            if each.name == name and link is not None and not link.connected:
                self._links.pop(_key(each)).stop()
        self._forget()

    def links(self, directory: str) -> list[Link]:
        """Return the clients of a directory's enabled servers, started or not."""
        return [self._link(each) for each in self._wanted.get(directory, ())]

    def stop(self) -> None:
        for link in self._links.values():
            link.stop()

    def _forget(self) -> None:
        """Stop the clients whose exact server no directory has enabled."""
        with self._lock:
            self._changed = False
            self._wanted = {directory: wants for directory, wants in self._wanted.items() if wants}
            keys = {_key(each) for wants in self._wanted.values() for each in wants}
        for key in [key for key in self._links if key not in keys]:
            self._links.pop(key).stop()
        for directory in [directory for directory in self._joined if directory not in self._wanted]:
            del self._joined[directory]

    def _link(self, wants: Wanted) -> Link:
        key = _key(wants)
        if key not in self._links:
            self._links[key] = Link(wants, group=self._group, output=self._output)
        return self._links[key]

    async def _begun(self, links: Sequence[Link]) -> None:
        """Start the clients that are not connected, and wait for those that were never tried."""
        for link in links:
            if not link.connected:
                link.begin()
        new = [link for link in links if not link.tried.is_set() and link.begun is not None]
        if not new:
            return
        until = max(link.begun or 0.0 for link in new) + STEP_SECONDS
        try:
            async with asyncio.timeout_at(until):
                for link in new:
                    await link.tried.wait()
        except TimeoutError:
            late = ", ".join(link.name for link in new if not link.tried.is_set())
            self._tell(f"action=wait mcp_servers={late}: not ready yet, the step goes on without them")

    def _with_tools(self, directory: str, project: Project, links: Sequence[Link]) -> Project:
        versions = tuple((link.name, link.version) for link in links)
        base, known, joined = self._joined.get(directory, (None, (), project))
        if base is project and known == versions:
            return joined
        joined = project.joined(self._tools(project, links), Together(links))
        self._joined[directory] = (project, versions, joined)
        return joined

    def _tools(self, project: Project, links: Sequence[Link]) -> list[AnyTool]:
        """Build the tools by server, then by name; the first tool of a name wins."""
        tools: dict[str, AnyTool] = {}
        for link in links:
            for offer in link.offers:
                name = tool_name(link.name, offer.name)
                taken = name in tools or name in project.tools or name in DELEGATING
                if why := f"there is another tool named {name}" if taken else _find_trouble(offer):
                    self._tell(f"action=skip_tool mcp_server={link.name} tool={offer.name}: {why}")
                else:
                    tools[name] = capped(_tool(link, offer, name), self._output)
        return list(tools.values())

    def _tell(self, warning: str) -> None:
        if warning not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(warning)
            _log.warning("%s", warning)


class Together:
    """Resources and prompts of the MCP servers of one directory."""

    def __init__(self, links: Sequence[Link]) -> None:
        self._links = {link.name: link for link in links}

    async def list_resources(self) -> tuple[Resource, ...]:
        return tuple([each for link in self._links.values() for each in await _resources(link)])

    async def read_resource(self, server: str, uri: str) -> tuple[Content, ...]:
        return await self._find(server).ask(lambda line: line.read(uri))

    async def list_prompts(self, command: str | None = None) -> tuple[ReadyPrompt, ...]:
        links = [link for name, link in self._links.items() if (command or f"{name}:").startswith(f"{name}:")]
        return tuple([each for link in links for each in await _prompts(link)])

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> tuple[Content, ...]:
        return await self._find(server).ask(lambda line: line.prompt(name, arguments))

    def _find(self, server: str) -> Link:
        if server not in self._links:
            known = ", ".join(self._links)
            raise ToolError(f'There is no MCP server named "{server}" here; there are: {known}.')
        return self._links[server]


async def _resources(link: Link) -> tuple[Resource, ...]:
    try:
        return await link.ask(lambda line: line.resources())
    except ToolError as error:
        _log.warning("action=list_resources mcp_server=%s: %s", link.name, error)
        return ()


async def _prompts(link: Link) -> tuple[ReadyPrompt, ...]:
    try:
        return await link.ask(lambda line: line.prompts())
    except ToolError as error:
        _log.warning("action=list_prompts mcp_server=%s: %s", link.name, error)
        return ()


@asynccontextmanager
async def open_servers(output: Path) -> AsyncIterator[Servers]:
    """Open the MCP servers; at the end of the block all are stopped with all processes they started."""
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        servers = Servers(group, output)
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


def _find_trouble(offer: Offer) -> str:
    """Return why a tool cannot be used: its schema is too large for every request, or has a tag of ours."""
    size = len(msgspec.json.encode(offer.parameters))
    if size > MOST_SCHEMA:
        return f"its schema has {size} bytes, more than {MOST_SCHEMA}"
    return "a name or a choice in its schema is a tag of asyncagents" if names_tag(offer.parameters) else ""


def _tool(link: Link, offer: Offer, name: str) -> AnyTool:
    async def run(args: dict[str, Any], context: ToolContext) -> Completed | Failed:
        return await link.call(offer, args, context)

    return Tool(
        name,
        dict,
        run,
        effect=offer.effect,
        timeout=link.wanted.config.timeout_seconds or TEN_MINUTES,
        description=offer.description,
        parameters=offer.parameters,
    )


def _key(wants: Wanted) -> bytes:
    """Key of a shared connection: name and config; for a local server also its folder and variables."""
    config = wants.config
    if config.type == "remote":
        return msgspec.json.encode((wants.name, config))
    return msgspec.json.encode((wants.name, config, str(wants.folder), wants.variables))
