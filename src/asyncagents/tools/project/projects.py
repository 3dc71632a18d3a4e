"""The project of each directory: its config is reread as files change, its `ProjectIO` is kept."""

import asyncio
import logging
import sys
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.child_environment import child_environment
from asyncagents.config.config import CompactionConfig, Config
from asyncagents.config.env import Environment
from asyncagents.config.git_settings import ALWAYS, with_git_settings
from asyncagents.config.guarded_places import guarded_places, start_up_places
from asyncagents.config.load import load_config
from asyncagents.config.loaded_project import LoadedProject
from asyncagents.config.markdown.agents import FoundAgents, find_agents
from asyncagents.config.markdown.commands import FoundCommands, find_commands
from asyncagents.config.markdown.instructions import Instruction, find_instructions
from asyncagents.config.markdown.skills import Skill, find_skills
from asyncagents.config.paths import FAMILIES, config_folder, secret_paths
from asyncagents.config.trust import is_trusted, project_root
from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.clock import Clock
from asyncagents.domain.task.notice import NoticeFormat
from asyncagents.engine.external.agent import ExternalStep
from asyncagents.engine.tool import AnyTool
from asyncagents.engine.workplace.agents import Agents, EnvironmentFacts
from asyncagents.engine.workplace.project import Project, PromptTexts
from asyncagents.engine.workplace.session_servers import TreeServers
from asyncagents.engine.workplace.snapshots import NoSnapshots, Snapshots
from asyncagents.engine.workplace.workplace import AskPolicy, CompactionPolicy, Workplace
from asyncagents.errors import ConfigError
from asyncagents.llm.alias import find_alias
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.read_log import ReadLog
from asyncagents.tools.file.thread_pool import Threads
from asyncagents.tools.git.snapshots import SWITCHED_OFF, open_snapshots
from asyncagents.tools.guard.configured_code import find_code_places
from asyncagents.tools.guard.place_guard import PlaceGuard
from asyncagents.tools.mcp.client import ServerSpec
from asyncagents.tools.mcp.server_control import create_server_control
from asyncagents.tools.mcp.servers import configured_servers
from asyncagents.tools.output.limit import delete_old_files, limit_output
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.process.sandbox import SCRATCH, Sandboxes, SandboxPaths, delete_old_scratch
from asyncagents.tools.project.agent_launch import AgentLaunch, plan_agent_launch
from asyncagents.tools.project.extensions import Additions, Extensions
from asyncagents.tools.project.extra_tools import merge_tools
from asyncagents.tools.project.prompt_sources import ProjectPromptSources
from asyncagents.tools.project.toolbox import ProjectIO, ToolDeps, built_in_tools

CACHE_MS = 2_000
"""How long a project is used before its files are read again."""
READERS = 16
"""Threads that read directories."""
MOST_CACHED = 256
MOST_PROJECTS = 1_000
MOST_WARNINGS = 1_000
DAY_MS = 24 * 3_600_000
_log = logging.getLogger(__name__)


class OpenedProject(Struct, frozen=True):
    """A project, warnings about its files, and the MCP servers it wants."""

    project: Project
    warnings: tuple[str, ...]
    servers: tuple[ServerSpec, ...] = ()


class DirectoryConfig(Struct, frozen=True):
    """The config of a directory and the extensions found for it, before these are loaded."""

    config: Config
    trusted: bool
    found: Any = None
    agents: FoundAgents | None = None
    """Its agents, if they have been read with the config."""


class Projects:
    """Opens and caches projects.

    `config`: applies to every directory, instead of its files; or files that were just read, which are used
    once instead of reading them again.
    """

    is_fixed = False
    has_hooks = True

    def __init__(
        self,
        environment: Environment,
        deps: ToolDeps,
        *,
        clock: Clock,
        config: Config | LoadedProject | None = None,
        tools: Sequence[AnyTool] = (),
        extensions: Extensions[Any] | None = None,
    ) -> None:
        self._environment = environment
        self._deps = deps
        self._clock = clock
        self._config = config if isinstance(config, Config) else None
        self._loaded = config if isinstance(config, LoadedProject) else None
        self._extensions = extensions
        self._program_tools = tuple(limit_output(tool, deps.output_folder) for tool in tools)
        self._project_ios: BoundedDict[Path, ProjectIO] = BoundedDict(MOST_PROJECTS)
        self._snapshots: dict[Path, Snapshots | NoSnapshots] = {}
        self._cache: OrderedDict[str, tuple[int, Project]] = OrderedDict()
        self._first_agents: BoundedDict[str, Agents] = BoundedDict(MOST_PROJECTS)
        self._warned: set[str] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._threads = Threads(READERS)
        self._swept_at = clock.now()
        self.mcp_control = create_server_control(environment, deps.servers, self._config, self)

    async def at(
        self, directory: str, *, working: bool = False, tree: TreeServers | None = None
    ) -> Workplace:
        """Return the project, at most `CACHE_MS` old; if its files are invalid now, the last valid one."""
        project, control = await self._read_project(directory), self.mcp_control
        return project if control is None else await control.add_tools(directory, project, tree, working)

    def agent_launch(self, step: ExternalStep) -> AgentLaunch:
        """Return how the program of an external agent is started; its project was opened for the step."""
        root = project_root(self._environment, Path(step.directory))
        return plan_agent_launch(step, self._environment, root, self._project_ios[root].processes)

    async def sandbox_failure(self, directory: str) -> str:
        """Return why no sandbox works in an opened project; an empty string if one does."""
        root = project_root(self._environment, Path(directory))
        return await self._project_ios[root].processes.sandbox_failure(network=True)

    @property
    def known_directories(self) -> tuple[str, ...]:
        return tuple(self._cache)

    def forget(self, directory: str) -> None:
        """Have the files read again at the next use; the last valid project stays as a fallback."""
        if directory in self._cache:
            self._cache[directory] = 0, self._cache[directory][1]

    async def wait_for_writes(self, seconds: float) -> None:
        """Wait up to `seconds` for running file changes, so that no patch of several files stays partial."""
        threads = [project_io.files.threads for project_io in self._project_ios.values()]
        await asyncio.gather(*(each.wait_idle(seconds) for each in threads))

    async def _read_project(self, directory: str) -> Project:
        known = self._cached_project(directory)
        if known is not None:
            return known
        async with self._locks.setdefault(directory, asyncio.Lock()):
            return self._cached_project(directory) or await self._reread_project(directory)

    def _cached_project(self, directory: str) -> Project | None:
        since, known = self._cache.get(directory, (0, None))
        return known if self._clock.now() - since < CACHE_MS else None

    async def _reread_project(self, directory: str) -> Project:
        try:
            opened = await self.open_project(directory)
        except (ConfigError, OSError) as error:
            if directory not in self._cache:
                raise ConfigError(str(error)) from error
            self._warn_once(f"{error}; the last valid configuration stays in use")
            opened = None
        project = opened.project if opened else self._cache[directory][1]
        if opened and self._deps.servers is not None:
            self._deps.servers.set_servers(directory, opened.servers)
        for warning in opened.warnings if opened else ():
            self._warn_once(warning)
        self._cache_project(directory, project)
        return project

    def _cache_project(self, directory: str, project: Project) -> None:
        """Cache the project; drop the least recently used ones and their MCP servers."""
        self._cache[directory] = (self._clock.now(), project)
        self._cache.move_to_end(directory)
        while len(self._cache) > MOST_CACHED:
            gone, _ = self._cache.popitem(last=False)
            if self._deps.servers is not None:
                self._deps.servers.set_servers(gone, ())

    def _sweep(self) -> None:
        now = self._clock.now()
        if now - self._swept_at > DAY_MS:
            self._swept_at = now
            delete_old_files(self._deps.output_folder, now)
            delete_old_scratch(self._deps.output_folder.parent / SCRATCH, now)

    def _warn_once(self, warning: str) -> None:
        if warning not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add(warning)
            _log.warning("%s", warning)

    async def open_project(self, directory: str) -> OpenedProject:
        """Read all files of a directory and build its project; raise `ConfigError` if they are invalid."""
        first = await self._threads.run(self._read_config, directory)
        if isinstance(first, OpenedProject) or self._extensions is None:
            assert isinstance(first, OpenedProject), "without extensions the config is not returned alone"
            return first
        additions = await self._extensions.load(first.found, first.config)
        return await self._threads.run(self._build_project, directory, first, additions)

    def _read_config(self, directory: str) -> DirectoryConfig | OpenedProject:
        """Read the config; return the built project at once if no extension is found."""
        self._sweep()
        first = self._take_loaded(directory) or self._load_config(Path(directory))
        if self._extensions is not None:
            found = self._extensions.find(directory, first.config, trusted=first.trusted)
            if found is not None:
                return replace(first, found=found)
        return self._build_project(directory, first, Additions(config=first.config))

    def _load_config(self, place: Path) -> DirectoryConfig:
        config = self._config or load_config(self._environment, directory=place).config
        return DirectoryConfig(config, is_trusted(self._environment, place))

    def _take_loaded(self, directory: str) -> DirectoryConfig | None:
        """Return the files that were read before this runtime, once and while they are fresh."""
        loaded = self._loaded
        if loaded is None or loaded.directory != directory:
            return None
        self._loaded = None
        fresh = self._clock.now() - loaded.read_at < CACHE_MS
        return DirectoryConfig(loaded.config, loaded.trusted, agents=loaded.agents) if fresh else None

    def _build_project(self, directory: str, first: DirectoryConfig, additions: Additions) -> OpenedProject:
        environment, place, config = self._environment, Path(directory), additions.config
        trusted, agents = first.trusted, first.agents
        if agents is None or config is not first.config:  # a plugin may change what a short name means
            agents = find_agents(environment, place, trusted=trusted, alias=partial(find_alias, config))
        skills = find_skills(environment, place, trusted=trusted)
        instructions = find_instructions(environment, place, config.instructions)
        root = project_root(environment, place)
        free = (str(self._deps.output_folder), *(str(skill.path.parent) for skill in skills.skills.values()))
        laid = Agents(config, agents, home=str(environment.home), directories=free)
        project_io = self._io_of(root, config).with_guard(self._guard(root, config))
        confined = (each.sandbox for each in laid.list(hidden=True) if each.sandbox is not None)
        project_io.sandboxes.add_writable(path for sandbox in confined for path in sandbox.write)
        commands = self._commands(place, config, trusted=trusted)
        known_skills = tuple(skills.skills.values())
        tools, clashes = self._tools(additions, project_io, known_skills)
        texts = self._prompt_texts(self._facts(directory, root), config, instructions.files, known_skills)
        project = Project(
            laid,
            tools,
            texts,
            _ask_policy(config),
            before=self._agents_at_start(directory, laid),
            nudges=config.todo_enforcer,
            sources=ProjectPromptSources(
                io=project_io, commands=commands, agents=laid, scratch=self._deps.output_folder
            ),
            hooks=additions.hooks,
        )
        project.snapshots = self._snapshots_of(root, config)
        warnings = (
            *agents.all_warnings,
            *commands.all_warnings,
            *skills.all_warnings,
            *instructions.warnings,
        )
        odd = (*warnings, *additions.warnings, *clashes)
        return OpenedProject(project, odd, configured_servers(environment, config, root))

    def _tools(
        self, additions: Additions, project_io: ProjectIO, skills: tuple[Skill, ...]
    ) -> tuple[tuple[AnyTool, ...], list[str]]:
        """Return all tools of a project, and warnings about tools of the same name."""
        output = self._deps.output_folder
        added = [replace(each, tool=limit_output(each.tool, output)) for each in additions.tools]
        delegating = self._deps.delegation_tools(additions.config.delegation)
        own = (
            *built_in_tools(self._deps, project_io, skills),
            *(limit_output(tool, output) for tool in delegating),
            *self._program_tools,
        )
        return merge_tools(own, added)

    def _prompt_texts(
        self,
        facts: EnvironmentFacts,
        config: Config,
        instructions: tuple[Instruction, ...],
        skills: tuple[Skill, ...],
    ) -> PromptTexts:
        return PromptTexts(
            facts=facts,
            instructions=instructions,
            skills=skills,
            model=config.model if self._config is None else None,
            small_model=config.small_model,
            compaction_policy=_compaction_policy(config.compaction),
            notice_format=self._notice_format(config),
            from_files=self._config is None,
        )

    def _guard(self, root: Path, config: Config) -> PlaceGuard:
        """Build the guard from the current config; it reads the disk when the first path is resolved."""
        home = self._environment.home
        places = guarded_places(self._environment, root=root, output=self._deps.output_folder, config=config)
        control = self.mcp_control
        code = find_code_places(config if control is None else control.with_given(config, root), root, home)
        return PlaceGuard(replace(places, known=places.known + code), root=str(root), home=str(home))

    def _commands(self, place: Path, config: Config, *, trusted: bool) -> FoundCommands:
        return find_commands(
            self._environment,
            place,
            trusted=trusted,
            configured=config.command,
            untrusted=config.untrusted,
            alias=partial(find_alias, config),
        )

    def _agents_at_start(self, directory: str, now: Agents) -> Agents:
        """Return the agents that this runtime first read for the directory."""
        first = self._first_agents[directory] = self._first_agents.get(directory, now)
        return first

    def _io_of(self, root: Path, config: Config) -> ProjectIO:
        """Return the `ProjectIO` of a root; kept over config changes, with its read log and file locks."""
        found = self._project_ios.get(root)
        if found is None:
            variables = with_git_settings(child_environment(self._environment, config), ALWAYS)
            found = ProjectIO(
                files=Files(root, home=self._environment.home),
                read_log=ReadLog(),
                processes=Processes(variables, folder=self._deps.output_folder, root=root),
                sandboxes=Sandboxes(self._sandbox_places(root, config)),
            )
        self._project_ios[root] = found
        return found

    def _sandbox_places(self, root: Path, config: Config) -> SandboxPaths:
        data = self._deps.output_folder.parent
        return SandboxPaths(
            root=root,
            home=self._environment.home,
            scratch=data / SCRATCH,
            own_paths=(data, config.data_dir, *secret_paths(self._environment, root, tuple(config.included))),
            own_folders=tuple(config_folder(self._environment, family) for family in FAMILIES),
            startup_files=start_up_places(self._environment),
            program=(Path(sys.prefix), Path(__file__).parents[2]),
        )

    def _snapshots_of(self, root: Path, config: Config) -> Snapshots | NoSnapshots:
        """Return the snapshots of a root, shared by all its sessions, which take turns."""
        if not config.snapshot:
            return NoSnapshots(SWITCHED_OFF)
        known = self._snapshots.get(root)
        if known is None or isinstance(known, NoSnapshots):
            folder = self._deps.output_folder.parent / "snapshot"
            self._snapshots[root] = open_snapshots(folder, root, self._environment.variables, self._clock)
        return self._snapshots[root]

    def _notice_format(self, config: Config) -> NoticeFormat:
        return NoticeFormat(
            inline_result=config.notices.inline_result,
            development=self._environment.get("ASYNCAGENTS_ENV") == "development",
            tool=config.delegation.reader,
        )

    def _facts(self, directory: str, root: Path) -> EnvironmentFacts:
        now = datetime.fromtimestamp(self._clock.now() / 1000, UTC).astimezone()
        return EnvironmentFacts(
            directory=directory,
            worktree=str(root),
            git=(root / ".git").exists(),
            platform=self._environment.platform,
            date=now.strftime("%A, %-d %B %Y"),
        )


def _compaction_policy(config: CompactionConfig) -> CompactionPolicy:
    return CompactionPolicy(
        auto=config.auto,
        prune=config.prune,
        reserved=config.reserved,
        recent=config.preserve_recent_tokens,
        turns=config.tail_turns,
    )


def _ask_policy(config: Config) -> AskPolicy:
    return AskPolicy(
        silence=config.asks.policy,
        seconds=config.asks.seconds,
        rejected_goes_on=config.experimental.get("continue_loop_on_deny") is True,
    )
