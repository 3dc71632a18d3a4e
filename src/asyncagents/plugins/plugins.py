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
from asyncagents.domain.text import error_text
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import Closed, ConfigError
from asyncagents.plugins.api import Plugin, PluginContext, PluginProject, Shell, ShellResult
from asyncagents.plugins.chain import HookChain
from asyncagents.plugins.event_listener import PluginListener
from asyncagents.plugins.find import FoundPlugins, PluginFinder, PluginSource
from asyncagents.plugins.guarded_call import CallTimeout, GuardedRunner, RaisedError, ReturnedValue
from asyncagents.plugins.load import PluginImporter, read_hooks, tools_in
from asyncagents.plugins.loaded_plugin import LoadedPlugin
from asyncagents.plugins.tool.check import usable_tools
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.project.extensions import Additions
from asyncagents.tools.project.extra_tools import ExtraTool

START_SECONDS = 10.0
_log = logging.getLogger(__name__)
MOST_DIRECTORIES = 1_000


class DirectoryPlugins(Struct, frozen=True):
    """The loaded plugins and tools of one directory."""

    chain: HookChain
    added: tuple[ExtraTool, ...]
    warnings: tuple[str, ...]
    listening: tuple[LoadedPlugin, ...] = ()
    """Plugins with an `event` hook."""


class PluginEvents(Struct, frozen=True):
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
        self._finder = PluginFinder(environment)
        self._runner = GuardedRunner()
        self._importer = PluginImporter(self._runner)
        self._directories: OrderedDict[tuple[str, bool], DirectoryPlugins] = OrderedDict()
        self._events: dict[str, PluginEvents] = {}
        self._loading: dict[tuple[str, bool], asyncio.Task[DirectoryPlugins]] = {}
        self._runtime: Runtime | None = None
        self._bus: Bus | None = None
        self._group: asyncio.TaskGroup | None = None

    def begin(self, runtime: Runtime, bus: Bus, group: asyncio.TaskGroup) -> None:
        """Give plugins the runtime as client, and events; before this they have neither."""
        self._runtime, self._bus, self._group = runtime, bus, group

    async def end(self) -> None:
        for loading in self._loading.values():
            loading.cancel()
        for events in self._events.values():
            events.close()
        self._runtime = None
        await self._runner.close()

    def find(self, directory: str, config: Config, *, trusted: bool) -> FoundPlugins | None:
        """Find plugins, in a thread; None if there are none. A loaded directory is not searched again."""
        if (directory, trusted) in self._directories:
            return FoundPlugins(directory=directory, trusted=trusted, plugins=(), tools=())
        found = self._finder.find(Path(directory), config, trusted=trusted)
        return found if self._own or found.plugins or found.tools or found.warnings else None

    async def load(self, found: FoundPlugins, config: Config) -> Additions:
        key = found.directory, found.trusted
        if key not in self._directories:
            self._directories[key] = await self._load_once(key, found, config)
            while len(self._directories) > MOST_DIRECTORIES:
                (oldest, trusted), _ = self._directories.popitem(last=False)
                if oldest in self._events and self._events[oldest].trusted == trusted:
                    self._events.pop(oldest).close()
        self._directories.move_to_end(key)
        plugins = self._directories[key]
        self._listen(found, plugins)
        return Additions(
            config=await plugins.chain.config(config) if "config" in plugins.chain.names else config,
            tools=plugins.added,
            hooks=plugins.chain,
            warnings=plugins.warnings,
        )

    async def _load_once(
        self, key: tuple[str, bool], found: FoundPlugins, config: Config
    ) -> DirectoryPlugins:
        """Load once for concurrent callers; a cancelled caller does not cancel the load."""
        if self._group is None:
            return await self._load(found, config)
        if key not in self._loading:
            self._loading[key] = self._group.create_task(self._load_or_warn(found, config))
        loading = self._loading[key]
        try:
            return await asyncio.shield(loading)
        finally:
            if loading.done():
                self._loading.pop(key, None)

    async def _load_or_warn(self, found: FoundPlugins, config: Config) -> DirectoryPlugins:
        """Load, turning any error into a warning, as this runs in the runtime's task group."""
        try:
            return await self._load(found, config)
        except Exception as error:  # noqa: BLE001  as above
            _log.exception("directory=%s action=load_plugins failed", found.directory)
            return DirectoryPlugins(
                HookChain(()), (), (f"the plugins could not be loaded: {error_text(error)}",)
            )

    async def _load(self, found: FoundPlugins, config: Config) -> DirectoryPlugins:
        added, warnings = await self._load_tools(found)
        plugins = [await self._load_program_plugin(plugin, found, config) for plugin in self._own]
        plugins += [await self._load_plugin(source, found, config) for source in found.plugins]
        for plugin in plugins:
            own = plugin.scope != "project"
            plugin.tools, odd = usable_tools(plugin.tools)
            warnings += [f"plugin {plugin.name}: {each}" for each in odd]
            added += [ExtraTool(tool, f"plugin {plugin.name}", own) for tool in plugin.tools]
            if plugin.error is not None:
                warnings.append(f"plugin {plugin.name} ({plugin.origin}) {plugin.error}")
        return DirectoryPlugins(
            HookChain(plugins),
            tuple(added),
            (*found.warnings, *warnings),
            tuple(plugin for plugin in plugins if "event" in plugin.hooks),
        )

    def _listen(self, found: FoundPlugins, plugins: DirectoryPlugins) -> None:
        """Start the listeners of a directory; stop those of its other trust state: no event comes twice."""
        before = self._events.get(found.directory)
        if self._bus is None or self._group is None or (before and before.trusted == found.trusted):
            return
        if before is not None:
            before.close()
        listeners = [
            PluginListener(plugin, found.directory, self._directory_of) for plugin in plugins.listening
        ]
        tasks = tuple(self._group.create_task(listener.listen(self._bus)) for listener in listeners)
        self._events[found.directory] = PluginEvents(found.trusted, tasks)

    async def _directory_of(self, session_id: SessionId) -> str:
        return (await self._client().session(session_id)).directory

    async def _load_tools(self, found: FoundPlugins) -> tuple[list[ExtraTool], list[str]]:
        added, warnings = [], []
        for file in found.tools:
            try:
                tools, odd = usable_tools(tools_in(await self._importer.import_file(file.path)))
            except ConfigError as error:
                warnings.append(f"{file.path} {error}")
                continue
            warnings += [f"{file.path}: {each}" for each in odd]
            if not (tools or odd):
                warnings.append(f"{file.path} has no tool: write a function and put @tool above it")
            added += [ExtraTool(tool, str(file.path), file.scope == "user") for tool in tools]
        return added, warnings

    async def _load_program_plugin(self, plugin: Plugin, found: FoundPlugins, config: Config) -> LoadedPlugin:
        name = getattr(plugin, "__name__", type(plugin).__name__)
        loaded = self._new_plugin(PluginSource(name=name, origin="program", scope="program"), config)
        return await self._start_plugin(loaded, plugin, self._context(name, {}, found, config))

    async def _load_plugin(self, source: PluginSource, found: FoundPlugins, config: Config) -> LoadedPlugin:
        loaded = self._new_plugin(source, config)
        try:
            strangers = self._finder.untrusted_roots(Path(found.directory))
            plugin = await self._importer.import_plugin(source, strangers)
        except ConfigError as error:
            loaded.error = str(error)
            return loaded
        context = self._context(source.name, source.options, found, config)
        return await self._start_plugin(loaded, plugin, context)

    def _new_plugin(self, source: PluginSource, config: Config) -> LoadedPlugin:
        return LoadedPlugin(
            name=source.name,
            origin=source.origin,
            scope=source.scope,
            runner=self._runner,
            seconds=config.hook_seconds,
        )

    async def _start_plugin(
        self, loaded: LoadedPlugin, plugin: Plugin, context: PluginContext
    ) -> LoadedPlugin:
        match await self._runner.run(plugin, context, seconds=START_SECONDS):
            case ReturnedValue(value):
                try:
                    loaded.set_hooks(*read_hooks(value))
                except ConfigError as error:
                    loaded.error = str(error)
            case RaisedError(error):
                loaded.error = f"could not start: {error_text(error)}"
            case CallTimeout():
                loaded.error = f"could not start: it did not end within {START_SECONDS:g} s"
        return loaded

    def _context(
        self, name: str, options: dict[str, Any], found: FoundPlugins, config: Config
    ) -> PluginContext:
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
            result = await processes.run(("bash", "-c", command), cwd=directory, timeout=timeout)
            return ShellResult(
                exit=result.exit_code,
                output=result.output,
                truncated=result.truncated,
                timed_out=result.timed_out,
            )

        return run
