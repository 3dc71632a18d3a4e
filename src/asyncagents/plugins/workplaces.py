"""Workplaces with fixed tools and the plugins of the embedding program, without files and rules."""

import logging

from asyncagents.config.config import Config
from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.engine.tool import Policy
from asyncagents.engine.workplace.mcp import McpControl
from asyncagents.engine.workplace.session_servers import TreeServers
from asyncagents.engine.workplace.workplace import FixedWorkplace, Workplace
from asyncagents.plugins.find import FoundPlugins
from asyncagents.plugins.plugins import MOST_DIRECTORIES, Plugins
from asyncagents.tools.project.extra_tools import merge_tools

_log = logging.getLogger(__name__)


class PluginWorkplaces:
    """Workplaces with the same tools everywhere, and plugins that are started once per directory."""

    is_fixed = True
    has_hooks = True
    mcp_control: McpControl | None = None

    def __init__(self, workplace: FixedWorkplace, policy: Policy, plugins: Plugins, config: Config) -> None:
        self._fixed = workplace
        self._policy = policy
        self._plugins = plugins
        self._config = config
        self._workplaces: BoundedDict[str, FixedWorkplace] = BoundedDict(MOST_DIRECTORIES)

    @property
    def known_directories(self) -> tuple[str, ...]:
        return tuple(self._workplaces)

    def forget(self, directory: str) -> None:
        """Do nothing: no files were read, so nothing can have changed."""

    async def at(
        self, directory: str, *, working: bool = False, tree: TreeServers | None = None
    ) -> Workplace:
        """Return the workplace of the directory; load the plugins once, and no code of the directory."""
        loaded = self._workplaces.get(directory) or await self._load(directory)
        # The first one that was loaded stays, if two calls loaded it at once.
        place = self._workplaces[directory] = self._workplaces.get(directory, loaded)
        return place

    async def _load(self, directory: str) -> FixedWorkplace:
        found = FoundPlugins(directory=directory, trusted=True, plugins=(), tools=())
        additions = await self._plugins.load(found, self._config)
        tools, clashes = merge_tools(tuple(self._fixed.tools.values()), additions.tools)
        for warning in (*additions.warnings, *clashes):
            _log.warning("directory=%s action=load_plugins %s", directory, warning)
        place = FixedWorkplace(
            tools, self._policy, self._fixed.ask_policy, reader=self._fixed.notice_format.tool
        )
        place.hooks = additions.hooks
        return place
