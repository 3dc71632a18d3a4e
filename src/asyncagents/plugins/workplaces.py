"""Workplaces with fixed tools and the plugins of the embedding program, without files and rules."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.delegation.launch import Desk
from asyncagents.engine.tool import Policy
from asyncagents.engine.workplace.mcp import Switchboard
from asyncagents.engine.workplace.workplace import Bare, Workplace, Workplaces
from asyncagents.plugins.api import Plugin
from asyncagents.plugins.find import Found
from asyncagents.plugins.plugins import MOST_DIRECTORIES, Plugins
from asyncagents.tools.project.extra_tools import with_added

_log = logging.getLogger(__name__)


class PluggedPlaces:
    """Workplaces with the same tools everywhere, and plugins that are started once per directory."""

    bare = True
    hooked = True
    switchboard: Switchboard | None = None

    def __init__(self, without: Bare, policy: Policy, plugins: Plugins, config: Config) -> None:
        self._without = without
        self._policy = policy
        self._plugins = plugins
        self._config = config
        self._places: OrderedDict[str, Bare] = OrderedDict()

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(self._places)

    def forget(self, directory: str) -> None:
        """Do nothing: no files were read, so nothing can have changed."""

    async def at(self, directory: str, *, working: bool = False) -> Workplace:
        """Return the workplace of the directory; load the plugins once, and no code of the directory."""
        if directory in self._places:
            self._places.move_to_end(directory)
            return self._places[directory]
        place = await self._load(directory)
        place = self._places.setdefault(directory, place)
        while len(self._places) > MOST_DIRECTORIES:
            self._places.popitem(last=False)
        return place

    async def _load(self, directory: str) -> Bare:
        found = Found(directory=directory, trusted=True, plugins=(), tools=())
        additions = await self._plugins.load(found, self._config)
        tools, clashes = with_added(tuple(self._without.tools.values()), additions.tools)
        for warning in (*additions.warnings, *clashes):
            _log.warning("directory=%s action=load_plugins %s", directory, warning)
        place = Bare(tools, self._policy, self._without.asking, reader=self._without.telling.tool)
        place.hooks = additions.hooks
        return place


def plug_in(
    furnish: Callable[[Desk], Workplaces], policy: Policy, data: Path, own: Sequence[Plugin]
) -> tuple[Callable[[Desk], Workplaces], Plugins]:
    """Add the plugins of a program to fixed workplaces."""
    plugins = Plugins(system_environment(), output=data / "tool-output", own=own)

    def furnish_with_plugins(desk: Desk) -> Workplaces:
        without = furnish(desk)
        assert isinstance(without, Bare), "only fixed workplaces take plugins here"
        return PluggedPlaces(without, policy, plugins, Config(data_dir=data))

    return furnish_with_plugins, plugins
