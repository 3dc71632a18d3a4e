"""The project of each directory: its config is reread as files change, its `ProjectIO` is kept."""

import asyncio
import logging
import sys
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.child_environment import child_environment
from asyncagents.config.config import CompactionConfig, Config
from asyncagents.config.env import Environment
from asyncagents.config.git_settings import ALWAYS, with_git_settings
from asyncagents.config.guarded_places import guarded_places, start_up_places
from asyncagents.config.load import load
from asyncagents.config.markdown.agents import find_agents
from asyncagents.config.markdown.commands import FoundCommands, find_commands
from asyncagents.config.markdown.instructions import find_instructions
from asyncagents.config.markdown.skills import find_skills
from asyncagents.config.paths import FAMILIES, config_folder, secret_places
from asyncagents.config.trust import is_trusted, project_root
from asyncagents.domain.port import Clock
from asyncagents.domain.task.notice import Telling
from asyncagents.engine.tool import AnyTool
from asyncagents.engine.workplace.agents import Agents, Facts
from asyncagents.engine.workplace.hooks import NO_HOOKS, Hooks
from asyncagents.engine.workplace.project import Project, Texts
from asyncagents.engine.workplace.snapshots import NoSnapshots, Snapshots
from asyncagents.engine.workplace.workplace import Asking, Keeping, Workplace
from asyncagents.errors import ConfigError
from asyncagents.llm.alias import find_alias
from asyncagents.tools.file.files import Files
from asyncagents.tools.file.read_log import Seen
from asyncagents.tools.file.thread_pool import Threads
from asyncagents.tools.git.snapshots import SWITCHED_OFF, open_snapshots
from asyncagents.tools.guard.configured_code import code_places
from asyncagents.tools.guard.place_guard import PlaceGuard
from asyncagents.tools.mcp.client import Wanted
from asyncagents.tools.mcp.servers import wanted
from asyncagents.tools.mcp.switchboard import switches
from asyncagents.tools.output.limit import capped, forget_old
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.process.sandbox import SCRATCH, Sandboxes, SandboxPlaces, forget_scratch
from asyncagents.tools.project.extra_tools import Added, with_added
from asyncagents.tools.project.prompt_sources import ProjectMaterial
from asyncagents.tools.project.toolbox import Bench, Doors, built_in

FRESH_MS = 2_000
"""How long a project is used before its files are read again."""
READERS = 16
"""Threads that read directories."""
MOST_KNOWN = 256
MOST_DOORS = 1_000
MOST_TOLD = 1_000
DAY_MS = 24 * 3_600_000
_log = logging.getLogger(__name__)


class Opened(Struct, frozen=True):
    """A project, warnings about its files, and the MCP servers it wants."""

    project: Project
    warnings: tuple[str, ...]
    servers: tuple[Wanted, ...] = ()


class Additions(Struct, frozen=True, kw_only=True):
    """What extensions add to a directory: tools, hooks, and its changed config."""

    config: Config
    tools: tuple[Added, ...] = ()
    hooks: Hooks = NO_HOOKS
    warnings: tuple[str, ...] = ()


F = TypeVar("F")


class Extensions(Protocol[F]):
    def find(self, directory: str, config: Config, *, trusted: bool) -> F | None:
        """Find the extensions of a directory; None: there are none. Called in a thread; must be cheap."""
        ...

    async def load(self, found: F, config: Config) -> Additions:
        """Load them; called on the event loop. Never raises."""
        ...


class Settled(Struct, frozen=True):
    """The config of a directory and the extensions found for it, before these are loaded."""

    config: Config
    trusted: bool
    found: Any = None


class Projects:
    """Opens and caches projects. `config`: applies to every directory, instead of its files."""

    bare = False
    hooked = True

    def __init__(
        self,
        environment: Environment,
        bench: Bench,
        *,
        clock: Clock,
        config: Config | None = None,
        tools: Sequence[AnyTool] = (),
        extensions: Extensions[Any] | None = None,
    ) -> None:
        self._environment = environment
        self._bench = bench
        self._clock = clock
        self._config = config
        self._extensions = extensions
        self._own = tuple(capped(tool, bench.output) for tool in tools)
        self._doors: OrderedDict[Path, Doors] = OrderedDict()
        self._snapshots: dict[Path, Snapshots | NoSnapshots] = {}
        self._known: OrderedDict[str, tuple[int, Project]] = OrderedDict()
        self._first: OrderedDict[str, Agents] = OrderedDict()
        self._told: set[str] = set()
        self._reading: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._threads = Threads(READERS)
        self._swept = clock.now()
        self.switchboard = switches(environment, bench.servers, config, self.at)

    async def at(self, directory: str, *, working: bool = False) -> Workplace:
        """Return the project, at most `CACHE_MS` old; if its files are invalid now, the last valid one."""
        project = await self._read(directory)
        servers = self._bench.servers
        return project if servers is None else await servers.join(directory, project, working=working)

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(self._known)

    def forget(self, directory: str) -> None:
        """Have the files read again at the next use; the last valid project stays as a fallback."""
        if directory in self._known:
            self._known[directory] = 0, self._known[directory][1]

    async def rest(self, seconds: float) -> None:
        """Wait up to `seconds` for running file changes, so that no patch of several files stays partial."""
        threads = [doors.files.threads for doors in self._doors.values()]
        await asyncio.gather(*(each.rest(seconds) for each in threads))

    async def _read(self, directory: str) -> Project:
        known = self._fresh(directory)
        if known is not None:
            return known
        async with self._reading.setdefault(directory, asyncio.Lock()):
            known = self._fresh(directory)
            return known if known is not None else await self._again(directory)

    def _fresh(self, directory: str) -> Project | None:
        since, known = self._known.get(directory, (0, None))
        return known if self._clock.now() - since < FRESH_MS else None

    async def _again(self, directory: str) -> Project:
        try:
            opened = await self.opened(directory)
        except (ConfigError, OSError) as error:
            if directory not in self._known:
                raise ConfigError(str(error)) from error
            self._tell(f"{error}; the last valid configuration stays in use")
            opened = None
        project = opened.project if opened else self._known[directory][1]
        if opened and self._bench.servers is not None:
            self._bench.servers.want(directory, opened.servers)
        for warning in opened.warnings if opened else ():
            self._tell(warning)
        self._keep(directory, project)
        return project

    def _keep(self, directory: str, project: Project) -> None:
        """Cache the project; drop the least recently used ones and their MCP servers."""
        now = self._clock.now()
        self._known[directory] = (now, project)
        self._known.move_to_end(directory)
        while len(self._known) > MOST_KNOWN:
            gone, _ = self._known.popitem(last=False)
            if self._bench.servers is not None:
                self._bench.servers.want(gone, ())

    def _sweep(self) -> None:
        now = self._clock.now()
        if now - self._swept > DAY_MS:
            self._swept = now
            forget_old(self._bench.output, now)
            forget_scratch(self._bench.output.parent / SCRATCH, now)

    def _tell(self, warning: str) -> None:
        if warning not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(warning)
            _log.warning("%s", warning)

    async def opened(self, directory: str) -> Opened:
        """Read all files of a directory and build its project; raise `ConfigError` if they are invalid."""
        first = await self._threads.run(self._first_look, directory)
        if isinstance(first, Opened) or self._extensions is None:
            assert isinstance(first, Opened), "without extensions the config is not returned alone"
            return first
        additions = await self._extensions.load(first.found, first.config)
        return await self._threads.run(self._open, directory, first.trusted, additions)

    def _first_look(self, directory: str) -> Settled | Opened:
        """Read the config; return the built project at once if no extension is found."""
        self._sweep()
        environment, place = self._environment, Path(directory)
        config = self._config or load(environment, directory=place).config
        trusted = is_trusted(environment, place)
        if self._extensions is not None:
            found = self._extensions.find(directory, config, trusted=trusted)
            if found is not None:
                return Settled(config, trusted, found)
        return self._open(directory, trusted, Additions(config=config))

    def _open(self, directory: str, trusted: bool, additions: Additions) -> Opened:
        environment, place, config = self._environment, Path(directory), additions.config
        agents = find_agents(environment, place, trusted=trusted, alias=partial(find_alias, config))
        skills = find_skills(environment, place, trusted=trusted)
        instructions = find_instructions(environment, place, config.instructions)
        root = project_root(environment, place)
        free = (str(self._bench.output), *(str(skill.path.parent) for skill in skills.skills.values()))
        laid = Agents(config, agents, home=str(environment.home), directories=free)
        doors = self._doors_of(root, config).guarded_by(self._guard(root, config))
        confined = (each.sandbox for each in laid.list(hidden=True) if each.sandbox is not None)
        doors.sandboxes.learn_writable(path for sandbox in confined for path in sandbox.write)
        tools = built_in(self._bench, doors, tuple(skills.skills.values()))
        commands = self._commands(place, config, trusted=trusted)
        added = [replace(each, tool=capped(each.tool, self._bench.output)) for each in additions.tools]
        delegating = [capped(tool, self._bench.output) for tool in self._bench.delegating(config.delegation)]
        every, clashes = with_added((*tools, *delegating, *self._own), added)
        project = Project(
            laid,
            every,
            Texts(
                facts=self._facts(directory, root),
                instructions=instructions.files,
                skills=tuple(skills.skills.values()),
                model=config.model if self._config is None else None,
                small_model=config.small_model,
                keeping=_keeping(config.compaction),
                telling=self._telling(config),
                from_files=self._config is None,
            ),
            _asking(config),
            before=self._before(directory, laid),
            nudges=config.todo_enforcer,
            material=ProjectMaterial(doors=doors, commands=commands, agents=laid, scratch=self._bench.output),
            hooks=additions.hooks,
        )
        project.snapshots = self._snapshots_of(root, config)
        told = (*agents.told, *commands.told, *skills.told, *instructions.warnings)
        odd = (*told, *additions.warnings, *clashes)
        return Opened(project, odd, wanted(environment, config, root))

    def _guard(self, root: Path, config: Config) -> PlaceGuard:
        """Build the guard from the current config; it reads the disk when the first path is resolved."""
        home = self._environment.home
        places = guarded_places(self._environment, root=root, output=self._bench.output, config=config)
        code = code_places(config, root, home)
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

    def _before(self, directory: str, now: Agents) -> Agents:
        """Return the agents that this runtime first read for the directory."""
        first = self._first.setdefault(directory, now)
        self._first.move_to_end(directory)
        while len(self._first) > MOST_DOORS:
            self._first.popitem(last=False)
        return first

    def _doors_of(self, root: Path, config: Config) -> Doors:
        """Return the `ProjectIO` of a root; kept over config changes, with its read log and file locks."""
        if root not in self._doors:
            while len(self._doors) >= MOST_DOORS:
                self._doors.popitem(last=False)
            variables = with_git_settings(child_environment(self._environment, config), ALWAYS)
            self._doors[root] = Doors(
                files=Files(root, home=self._environment.home),
                seen=Seen(),
                processes=Processes(variables, folder=self._bench.output, root=root),
                sandboxes=Sandboxes(self._places(root, config)),
            )
        self._doors.move_to_end(root)
        return self._doors[root]

    def _places(self, root: Path, config: Config) -> SandboxPlaces:
        data = self._bench.output.parent
        return SandboxPlaces(
            root=root,
            home=self._environment.home,
            scratch=data / SCRATCH,
            ours=(data, config.data_dir, *secret_places(self._environment, root, tuple(config.included))),
            folders=tuple(config_folder(self._environment, family) for family in FAMILIES),
            obeyed=start_up_places(self._environment),
            program=(Path(sys.prefix), Path(__file__).parents[2]),
        )

    def _snapshots_of(self, root: Path, config: Config) -> Snapshots | NoSnapshots:
        """Return the snapshots of a root, shared by all its sessions, which take turns."""
        if not config.snapshot:
            return NoSnapshots(SWITCHED_OFF)
        known = self._snapshots.get(root)
        if known is None or isinstance(known, NoSnapshots):
            folder = self._bench.output.parent / "snapshot"
            self._snapshots[root] = open_snapshots(folder, root, self._environment.variables, self._clock)
        return self._snapshots[root]

    def _telling(self, config: Config) -> Telling:
        return Telling(
            inline_result=config.notices.inline_result,
            development=self._environment.get("ASYNCAGENTS_ENV") == "development",
            tool=config.delegation.reader,
        )

    def _facts(self, directory: str, root: Path) -> Facts:
        now = datetime.fromtimestamp(self._clock.now() / 1000, UTC).astimezone()
        return Facts(
            directory=directory,
            worktree=str(root),
            git=(root / ".git").exists(),
            platform=self._environment.platform,
            date=now.strftime("%A, %-d %B %Y"),
        )


def _keeping(config: CompactionConfig) -> Keeping:
    return Keeping(
        auto=config.auto,
        prune=config.prune,
        reserved=config.reserved,
        recent=config.preserve_recent_tokens,
        turns=config.tail_turns,
    )


def _asking(config: Config) -> Asking:
    return Asking(
        silence=config.asks.policy,
        seconds=config.asks.seconds,
        rejected_goes_on=config.experimental.get("continue_loop_on_deny") is True,
    )
