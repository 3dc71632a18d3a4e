"""The tools of MCP servers: which a directory wants, one connection for all who want the same."""

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

from asyncagents.config.child import child_environment
from asyncagents.config.config import Config
from asyncagents.config.env import Environment
from asyncagents.config.git_settings import ALWAYS, with_git_settings
from asyncagents.domain.call import Completed, Failed
from asyncagents.domain.permission import DELEGATING
from asyncagents.engine.project import Project
from asyncagents.engine.served import Content, ReadyPrompt, Resource
from asyncagents.engine.tool import TEN_MINUTES, AnyTool, Tool, ToolContext
from asyncagents.errors import ToolError
from asyncagents.tools.cap import capped
from asyncagents.tools.mcp_choice import Choices
from asyncagents.tools.mcp_line import Offer
from asyncagents.tools.mcp_link import Link, Wanted
from asyncagents.tools.mcp_schema import names_tag

STEP_SECONDS = 30.0
"""So long a step waits for servers that have never been there; whoever is later joins a later step."""
LONGEST_NAME = 64
MOST_SCHEMA = 100_000
MOST_TOLD = 1_000
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9_-]")

_log = logging.getLogger(__name__)


def wanted(environment: Environment, config: Config, root: Path) -> tuple[Wanted, ...]:
    """The servers of a configuration, by name; those too that are switched off."""
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
    """Nothing is started before somebody works in a directory that wants it."""

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
        """From now on, instead of what was wanted there before. Any thread may say so."""
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
        """The project with the tools of its servers; those that `working` waits for in vain are left out."""
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
        """As its files and people have them, also those that are switched off."""
        return self._choices.known(directory, self._written.get(directory, ()))

    def choose(self, directory: str, name: str, chosen: Wanted | bool) -> None:
        """Switch one on or off, or have this one. Who is begun anew forgets what failed before."""
        self._choices.note(directory, name, chosen)
        self.want(directory, self._written.get(directory, ()))
        for each in self._wanted.get(directory, ()):
            link = self._links.get(_key(each))
            if each.name == name and link is not None and not link.connected:
                self._links.pop(_key(each)).stop()
        self._forget()

    def links(self, directory: str) -> list[Link]:
        """Of a directory, whether they have been started or not."""
        return [self._link(each) for each in self._wanted.get(directory, ())]

    def stop(self) -> None:
        for link in self._links.values():
            link.stop()

    def _forget(self) -> None:
        """End those that nobody wants any more, or only in another way."""
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
        """All side by side."""
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
            self._tell(f"MCP servers that are not ready yet: {late}; the work goes on without them")

    def _with_tools(self, directory: str, project: Project, links: Sequence[Link]) -> Project:
        versions = tuple((link.name, link.version) for link in links)
        base, known, joined = self._joined.get(directory, (None, (), project))
        if base is project and known == versions:
            return joined
        joined = project.joined(self._tools(project, links), Together(links))
        self._joined[directory] = (project, versions, joined)
        return joined

    def _tools(self, project: Project, links: Sequence[Link]) -> list[AnyTool]:
        """By server, and there by name. A name that is taken stays with who had it first."""
        tools: dict[str, AnyTool] = {}
        for link in links:
            for offer in link.offers:
                name = tool_name(link.name, offer.name)
                taken = name in tools or name in project.tools or name in DELEGATING
                if why := f"there is another tool named {name}" if taken else _find_trouble(offer):
                    self._tell(f"the tool {offer.name} of MCP server {link.name} is left out: {why}")
                else:
                    tools[name] = capped(_tool(link, offer, name), self._output)
        return list(tools.values())

    def _tell(self, warning: str) -> None:
        if warning not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(warning)
            _log.warning("%s", warning)


class Together:
    """What the servers of one directory offer besides tools."""

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
        _log.warning("%s", error)
        return ()


async def _prompts(link: Link) -> tuple[ReadyPrompt, ...]:
    try:
        return await link.ask(lambda line: line.prompts())
    except ToolError as error:
        _log.warning("%s", error)
        return ()


@asynccontextmanager
async def open_servers(output: Path) -> AsyncIterator[Servers]:
    """At the end all of them are ended, with all that they started."""
    failure: BaseException | None = None
    async with asyncio.TaskGroup() as group:
        servers = Servers(group, output)
        try:
            yield servers
        except BaseException as error:  # noqa: BLE001  leaves the group first, so that it is not wrapped
            failure = error
        servers.stop()
    if failure is not None:
        raise failure


def tool_name(server: str, tool: str) -> str:
    """As every provider takes it. One that is too long ends in a number of its own."""
    name = _NOT_IN_NAME.sub("_", f"{server}_{tool}")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9]}_{crc32(f'{server}_{tool}'.encode('utf-8', 'replace')):08x}"


def _find_trouble(offer: Offer) -> str:
    """Every request would carry its schema."""
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
    """The same for all who want the same: a local server also in the same folder, with the same variables."""
    config = wants.config
    if config.type == "remote":
        return msgspec.json.encode((wants.name, config))
    return msgspec.json.encode((wants.name, config, str(wants.folder), wants.variables))
