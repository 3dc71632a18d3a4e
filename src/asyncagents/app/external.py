"""External agents of a runtime: their programs run in the projects of its sessions."""

import asyncio
from contextlib import AbstractAsyncContextManager

from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.engine.external.agent import EXTERNAL_LANE, ExternalAgents, ExternalStep
from asyncagents.engine.tool import Ask
from asyncagents.engine.workplace.workplace import Workplaces
from asyncagents.llm.limits import Concurrency


def build_acp_agents(workplaces: Workplaces, group: asyncio.TaskGroup, clock: Clock) -> ExternalAgents | None:
    """Return the external agents of a runtime; None if its workplaces start no programs."""
    if workplaces.is_fixed:
        return None
    from asyncagents.remote.acp.agents import AcpAgents, AgentProgram  # start-up: only projects need it
    from asyncagents.remote.acp.calls import MergedCall  # start-up: as above
    from asyncagents.remote.acp.program import HasPrograms, find_project_asks, open_program  # start-up

    if not isinstance(workplaces, HasPrograms):
        return None
    programs: HasPrograms = workplaces

    def start(step: ExternalStep) -> AbstractAsyncContextManager[AgentProgram]:
        return open_program(programs.agent_launch(step), group)

    async def find_asks(step: ExternalStep, call: MergedCall) -> tuple[Ask, ...]:
        return await find_project_asks(programs.agent_launch(step), step, call)

    return AcpAgents(start, find_asks, group=group, clock=clock)


def with_external_lane(concurrency: Concurrency, most: int) -> Concurrency:
    """Limit how many external agents work at once, beside the limits of models."""

    def limit(model: ModelRef) -> int:
        return most if model == EXTERNAL_LANE else concurrency(model)

    return limit
