"""The plugins of a runtime: finds and loads them per directory and passes events to them."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from asyncagents.config.child_environment import child_environment
from asyncagents.config.config import Config
from asyncagents.config.env import Environment
from asyncagents.config.git_settings import ALWAYS, with_git_settings
from asyncagents.config.trust import project_root
from asyncagents.domain.conversation.session import project_id
from asyncagents.domain.id import SessionId
from asyncagents.domain.text import said
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import Closed, ConfigError
from asyncagents.plugins.api import Plugin, PluginContext, PluginProject, Shell, ShellResult
from asyncagents.plugins.chain import Chain
from asyncagents.plugins.event_listener import Listener
from asyncagents.plugins.find import Finder, Found, Source
from asyncagents.plugins.guarded_call import Custody, Hung, Raised, Returned
from asyncagents.plugins.load import Importer, read_hooks, tools_in
from asyncagents.plugins.loaded_plugin import Loaded
from asyncagents.plugins.tool.check import usable
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.project.extra_tools import Added
from asyncagents.tools.project.projects import Additions

START_SECONDS = 10.0
_log = logging.getLogger(__name__)
MOST_DIRECTORIES = 1_000


class Here(Struct, frozen=True):
    """The loaded plugins and tools of one directory."""

    chain: Chain
    added: tuple[Added, ...]
    warnings: tuple[str, ...]
    listening: tuple[Loaded, ...] = ()
    """Plugins with an `event` hook."""


class Ears(Struct, frozen=True):
    """The tasks that pass events to a directory's plugins, for one state of trust."""

    trusted: bool
    tasks: tuple[asyncio.Task[None], ...]

    def close(self) -> None:
        for task in self.tasks:
            task.cancel()


class Plugins:
    """`own`: plugins of the embedding program, called before all others."""

    def __init__(self, environment: Environment, *, output: Path, own: Sequence[Plugin] = ()) -> None:
        self._environment = environment
        self._output = output
        self._own = tuple(own)
        self._finder = Finder(environment)
        self._custody = Custody()
        self._importer = Importer(self._custody)
        self._here: OrderedDict[tuple[str, bool], Here] = OrderedDict()
        self._ears: dict[str, Ears] = {}
        self._loading: dict[tuple[str, bool], asyncio.Task[Here]] = {}
        self._runtime: Runtime | None = None
        self._bus: Bus | None = None
        self._group: asyncio.TaskGroup | None = None

    def begin(self, runtime: Runtime, bus: Bus, group: asyncio.TaskGroup) -> None:
        """Give plugins the runtime as client, and events; before this they have neither."""
        self._runtime, self._bus, self._group = runtime, bus, group

    async def end(self) -> None:
        for loading in self._loading.values():
            loading.cancel()
        for ears in self._ears.values():
            ears.close()
        self._runtime = None
        await self._custody.close()

    def find(self, directory: str, config: Config, *, trusted: bool) -> Found | None:
        """Find plugins, in a thread; None if there are none. A loaded directory is not searched again."""
        if (directory, trusted) in self._here:
            return Found(directory=directory, trusted=trusted, plugins=(), tools=())
        found = self._finder.find(Path(directory), config, trusted=trusted)
        return found if self._own or found.plugins or found.tools or found.warnings else None

    async def load(self, found: Found, config: Config) -> Additions:
        key = found.directory, found.trusted
        if key not in self._here:
            self._here[key] = await self._once(key, found, config)
            while len(self._here) > MOST_DIRECTORIES:
                (oldest, trusted), _ = self._here.popitem(last=False)
                if oldest in self._ears and self._ears[oldest].trusted == trusted:
                    self._ears.pop(oldest).close()
        self._here.move_to_end(key)
        here = self._here[key]
        self._hear(found, here)
        return Additions(
            config=await here.chain.config(config) if "config" in here.chain.names else config,
            tools=here.added,
            hooks=here.chain,
            warnings=here.warnings,
        )

    async def _once(self, key: tuple[str, bool], found: Found, config: Config) -> Here:
        """Load once for concurrent callers; a cancelled caller does not cancel the load."""
        if self._group is None:
            return await self._load(found, config)
        if key not in self._loading:
            self._loading[key] = self._group.create_task(self._load_anyhow(found, config))
        loading = self._loading[key]
        try:
            return await asyncio.shield(loading)
        finally:
            if loading.done():
                self._loading.pop(key, None)

    async def _load_anyhow(self, found: Found, config: Config) -> Here:
        """Load, turning any error into a warning, as this runs in the runtime's task group."""
        try:
            return await self._load(found, config)
        except Exception as error:  # noqa: BLE001  as above
            _log.exception("directory=%s action=load_plugins failed", found.directory)
            return Here(Chain(()), (), (f"the plugins could not be loaded: {said(error)}",))

    async def _load(self, found: Found, config: Config) -> Here:
        added, warnings = await self._tools(found)
        plugins = [await self._program(plugin, found, config) for plugin in self._own]
        plugins += [await self._plugin(source, found, config) for source in found.plugins]
        for plugin in plugins:
            own = plugin.scope != "project"
            plugin.tools, odd = usable(plugin.tools)
            warnings += [f"plugin {plugin.name}: {each}" for each in odd]
            added += [Added(tool, f"plugin {plugin.name}", own) for tool in plugin.tools]
            if plugin.error is not None:
                warnings.append(f"plugin {plugin.name} ({plugin.origin}) {plugin.error}")
        return Here(
            Chain(plugins),
            tuple(added),
            (*found.warnings, *warnings),
            tuple(plugin for plugin in plugins if "event" in plugin.hooks),
        )

    def _hear(self, found: Found, here: Here) -> None:
        """Start the listeners of a directory; stop those of its other trust state: no event comes twice."""
        before = self._ears.get(found.directory)
        if self._bus is None or self._group is None or (before and before.trusted == found.trusted):
            return
        if before is not None:
            before.close()
        listeners = [Listener(plugin, found.directory, self._directory_of) for plugin in here.listening]
        tasks = tuple(self._group.create_task(listener.listen(self._bus)) for listener in listeners)
        self._ears[found.directory] = Ears(found.trusted, tasks)

    async def _directory_of(self, session_id: SessionId) -> str:
        return (await self._client().session(session_id)).directory

    async def _tools(self, found: Found) -> tuple[list[Added], list[str]]:
        added, warnings = [], []
        for file in found.tools:
            try:
                tools, odd = usable(tools_in(await self._importer.file(file.path)))
            except ConfigError as error:
                warnings.append(f"{file.path} {error}")
                continue
            warnings += [f"{file.path}: {each}" for each in odd]
            if not (tools or odd):
                warnings.append(f"{file.path} has no tool: write a function and put @tool above it")
            added += [Added(tool, str(file.path), file.scope == "user") for tool in tools]
        return added, warnings

    async def _program(self, plugin: Plugin, found: Found, config: Config) -> Loaded:
        name = getattr(plugin, "__name__", type(plugin).__name__)
        loaded = self._loaded(Source(name=name, origin="program", scope="program"), config)
        return await self._started(loaded, plugin, self._context(name, {}, found, config))

    async def _plugin(self, source: Source, found: Found, config: Config) -> Loaded:
        loaded = self._loaded(source, config)
        try:
            strangers = self._finder.strangers(Path(found.directory))
            plugin = await self._importer.plugin(source, strangers)
        except ConfigError as error:
            loaded.error = str(error)
            return loaded
        context = self._context(source.name, source.options, found, config)
        return await self._started(loaded, plugin, context)

    def _loaded(self, source: Source, config: Config) -> Loaded:
        return Loaded(
            name=source.name,
            origin=source.origin,
            scope=source.scope,
            custody=self._custody,
            seconds=config.hook_seconds,
        )

    async def _started(self, loaded: Loaded, plugin: Plugin, context: PluginContext) -> Loaded:
        match await self._custody.run(plugin, context, seconds=START_SECONDS):
            case Returned(value):
                try:
                    loaded.offer(*read_hooks(value))
                except ConfigError as error:
                    loaded.error = str(error)
            case Raised(error):
                loaded.error = f"could not start: {said(error)}"
            case Hung():
                loaded.error = f"could not start: it did not end within {START_SECONDS:g} s"
        return loaded

    def _context(self, name: str, options: dict[str, Any], found: Found, config: Config) -> PluginContext:
        worktree = str(project_root(self._environment, Path(found.directory)))
        return PluginContext(
            name=name,
            directory=found.directory,
            worktree=worktree,
            project=PluginProject(project_id(found.directory), worktree),
            options=options,
            server_url=None,
            runtime=self._client,
            run=self._shell(Path(found.directory), config),
        )

    def _client(self) -> Runtime:
        if self._runtime is None:
            raise Closed(
                "no runtime is running: use the client in hooks and tools, not while the plugin starts"
            )
        return self._runtime

    def _shell(self, directory: Path, config: Config) -> Shell:
        variables = with_git_settings(child_environment(self._environment, config), ALWAYS)
        root = project_root(self._environment, directory)
        processes = Processes(variables, folder=self._output, root=root)

        async def run(command: str, timeout: float) -> ShellResult:
            ended = await processes.run(("bash", "-c", command), cwd=directory, timeout=timeout)
            return ShellResult(
                exit=ended.exit, output=ended.output, truncated=ended.truncated, timed_out=ended.timed_out
            )

        return run
