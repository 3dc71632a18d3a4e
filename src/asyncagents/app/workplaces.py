"""The workplaces of a runtime: the same tools everywhere, or the project of each directory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol, TypeAlias

from msgspec import Struct

from asyncagents.config.clock import SystemClock
from asyncagents.config.config import Config, DelegationConfig
from asyncagents.config.env import system_environment
from asyncagents.delegation.launch import TaskLauncher
from asyncagents.delegation.tools import delegation_tools
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool, Policy, ask_everything
from asyncagents.engine.workplace.workplace import FixedWorkplace, Workplaces
from asyncagents.plugins.api import Plugin

WorkplaceFactory: TypeAlias = Callable[[TaskLauncher], Workplaces]
"""Builds the workplaces of sessions; some tools need the store or the task launcher."""


def fixed_tools(
    tools: Sequence[AnyTool], policy: Policy = ask_everything, delegation: DelegationConfig | None = None
) -> WorkplaceFactory:
    """Return a factory of workplaces with the same tools for every session, and tools for `delegation`.

    A tool of `tools` replaces a delegation tool of the same name, as with `coding`.
    """

    def furnish(desk: TaskLauncher) -> Workplaces:
        if delegation is None:
            return FixedWorkplace(tools, policy)
        own = {tool.name for tool in tools}
        delegating = [tool for tool in delegation_tools(desk, delegation) if tool.name not in own]
        return FixedWorkplace((*tools, *delegating), policy, reader=delegation.reader)

    return furnish


class PluginHost(Protocol):
    """The plugins of a runtime, started and stopped with it."""

    def begin(self, runtime: Runtime, bus: Bus, group: asyncio.TaskGroup) -> None: ...

    async def end(self) -> None: ...


class WorkplaceSetup(Struct, frozen=True):
    make_workplaces: WorkplaceFactory
    plugins: PluginHost | None = None


@asynccontextmanager
async def open_workplaces(
    data: Path,
    tools: Sequence[AnyTool],
    policy: Policy,
    coding: bool | Config | str,
    *,
    plugins: Sequence[Plugin],
    delegation: bool | DelegationConfig,
) -> AsyncIterator[WorkplaceSetup]:
    if coding is False:
        furnish = fixed_tools(tools, policy, DelegationConfig() if delegation is True else delegation or None)
        yield _with_plugins(furnish, policy, data, plugins) if plugins else WorkplaceSetup(furnish)
        return
    from asyncagents.plugins.plugins import Plugins  # start-up: as below
    from asyncagents.tools.project.factory import open_projects_factory  # start-up: not needed without coding

    config = coding if isinstance(coding, Config) else None
    output = data / "tool-output"
    added = Plugins(system_environment(), output=output, own=plugins)
    async with open_projects_factory(
        output, config=config, tools=tools, clock=SystemClock(), extensions=added
    ) as open_projects:

        def furnish(desk: TaskLauncher) -> Workplaces:
            return open_projects(desk.store, desk.ids, lambda config: delegation_tools(desk, config))

        yield WorkplaceSetup(furnish, added)


def _with_plugins(
    without: WorkplaceFactory, policy: Policy, data: Path, plugins: Sequence[Plugin]
) -> WorkplaceSetup:
    from asyncagents.plugins.workplaces import add_program_plugins  # start-up: most programs have no plugins

    return WorkplaceSetup(*add_program_plugins(without, policy, data, plugins))
