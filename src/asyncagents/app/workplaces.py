"""The workplaces of a runtime: the same tools everywhere, or the project of each directory."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

from asyncagents.config.clock import SystemClock
from asyncagents.config.config import Config, DelegationConfig
from asyncagents.config.env import system_environment
from asyncagents.config.loaded_project import LoadedProject
from asyncagents.delegation.launch import TaskLauncher
from asyncagents.delegation.tools import delegation_tools
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool, Policy, ask_everything
from asyncagents.engine.workplace.workplace import FixedWorkplace, Workplaces
from asyncagents.plugins.api import Plugin

WRITE_SECONDS = 2.0
"""How long the end of a runtime waits for running file changes."""

OpenWorkplaces: TypeAlias = Callable[[TaskLauncher], AbstractAsyncContextManager[Workplaces]]
"""Opens the workplaces of sessions; some tools need the store or the task launcher."""


class PluginHost(Protocol):
    """The plugins of a runtime, started and stopped with it."""

    def begin(self, runtime: Runtime, bus: Bus, group: asyncio.TaskGroup) -> None: ...

    async def end(self) -> None: ...


def fixed_tools(
    tools: Sequence[AnyTool], policy: Policy = ask_everything, delegation: DelegationConfig | None = None
) -> OpenWorkplaces:
    """Open workplaces with the same tools for every session, and tools for `delegation`.

    A tool of `tools` replaces a delegation tool of the same name, as with `coding`.
    """
    return lambda launcher: nullcontext(_build_fixed(launcher, tools, policy, delegation))


def _build_fixed(
    launcher: TaskLauncher, tools: Sequence[AnyTool], policy: Policy, delegation: DelegationConfig | None
) -> FixedWorkplace:
    if delegation is None:
        return FixedWorkplace(tools, policy)
    own = {tool.name for tool in tools}
    delegating = [tool for tool in delegation_tools(launcher, delegation) if tool.name not in own]
    return FixedWorkplace((*tools, *delegating), policy, reader=delegation.reader)


def choose_workplaces(
    data: Path,
    tools: Sequence[AnyTool],
    policy: Policy,
    coding: bool | Config | LoadedProject | str,
    *,
    plugins: Sequence[Plugin],
    delegation: bool | DelegationConfig,
) -> tuple[OpenWorkplaces, PluginHost | None]:
    """Return how to open the workplaces of a runtime, and its plugins; arguments as of `open_runtime`."""
    if coding is not False:
        config = coding if isinstance(coding, Config | LoadedProject) else None
        return _choose_projects(data, tools, config, plugins)
    limits = DelegationConfig() if delegation is True else delegation or None
    if not plugins:
        return fixed_tools(tools, policy, limits), None
    from asyncagents.plugins.plugins import Plugins  # start-up: as below
    from asyncagents.plugins.workplaces import PluginWorkplaces  # start-up: most programs have no plugins

    host = Plugins(system_environment(), output=data / "tool-output", own=plugins)

    def open_workplaces(launcher: TaskLauncher) -> AbstractAsyncContextManager[Workplaces]:
        fixed = _build_fixed(launcher, tools, policy, limits)
        return nullcontext(PluginWorkplaces(fixed, policy, host, Config(data_dir=data)))

    return open_workplaces, host


def _choose_projects(
    data: Path, tools: Sequence[AnyTool], config: Config | LoadedProject | None, plugins: Sequence[Plugin]
) -> tuple[OpenWorkplaces, PluginHost]:
    """Choose the project of each directory; without a `Config`, each directory reads its own files."""
    from asyncagents.plugins.plugins import Plugins  # start-up: as below
    from asyncagents.tools.project.projects import Projects  # start-up: not needed without coding
    from asyncagents.tools.project.toolbox import open_tool_deps  # start-up: as above

    environment, clock, output = system_environment(), SystemClock(), data / "tool-output"
    host = Plugins(environment, output=output, own=plugins)

    @asynccontextmanager
    async def open_workplaces(launcher: TaskLauncher) -> AsyncIterator[Workplaces]:
        async with open_tool_deps(
            output,
            launcher.store,
            launcher.ids,
            home=environment.home,
            clock=clock,
            delegation_tools=partial(delegation_tools, launcher),
        ) as deps:
            projects = Projects(environment, deps, clock=clock, config=config, tools=tools, extensions=host)
            try:
                yield projects
            finally:
                await projects.wait_for_writes(WRITE_SECONDS)

    return open_workplaces, host
