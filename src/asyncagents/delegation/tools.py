"""Build the delegation tools of one workplace."""

from asyncagents.config.config import DelegationConfig
from asyncagents.delegation.async_task import async_task, async_task_result
from asyncagents.delegation.background import background_tools
from asyncagents.delegation.launch import TaskLauncher
from asyncagents.delegation.task import task
from asyncagents.engine.tool import AnyTool


def delegation_tools(launcher: TaskLauncher, limits: DelegationConfig) -> tuple[AnyTool, ...]:
    tools: list[AnyTool] = [task(launcher, limits)]
    if limits.tools in ("asyncagents", "both"):
        tools += background_tools(launcher, limits)
    if limits.tools in ("async_task", "both"):
        tools += [async_task(launcher, limits), async_task_result(launcher)]
    return tuple(tools)
