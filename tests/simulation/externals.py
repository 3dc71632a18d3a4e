"""A world where sessions launch external agents, which ask, end and forget as they like, whatever crashes."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from asyncagents.app.assemble import Setup
from asyncagents.app.external import with_external_lane
from asyncagents.config.config import DelegationConfig
from asyncagents.delegation.launch import TaskLauncher
from asyncagents.delegation.tools import delegation_tools
from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.domain.agent.permission import LineageRules
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.session import Rule
from asyncagents.domain.id import SessionId
from asyncagents.engine.external.agent import ExternalAgents, ExternalStep
from asyncagents.engine.tool import AnyTool, Ask, ask_everything
from asyncagents.engine.workplace.workplace import Workplaces
from asyncagents.errors import ToolError
from asyncagents.llm.limits import default_concurrency
from asyncagents.remote.acp.agents import AcpAgents
from asyncagents.remote.acp.calls import MergedCall, call_asks
from asyncagents.testing.process import Process
from tests.simulation.cast import Cast, Props, Treehouse
from tests.simulation.foreign import DENIED, FREE, INSTRUCTIONS, Foreign, ForeignProgram
from tests.simulation.scenario import ACTIVE_SECONDS, Scenario
from tests.simulation.stage import Stage
from tests.simulation.trees import Grove
from tests.simulation.wild_agent import WildAgent

EXTERNALS = 6_000_000
"""From this seed on."""
AGENTS = ("reviewer", "porter")
LONGEST_AMBUSH = 200
PLAIN = "general"
"""An agent of ours that is launched beside them."""
RULES = (
    Rule(permission="external_agent", pattern="*", action="allow"),
    Rule(permission="webfetch", pattern=f"{FREE}/*", action="allow"),
    Rule(permission="webfetch", pattern=f"{DENIED}/*", action="deny"),
)


class Embassy(Treehouse):
    """A workplace with external agents, whose calls are allowed, denied or asked for by their addresses."""

    def __init__(self, tools: Sequence[AnyTool], backends: dict[str, AcpBackend]) -> None:
        super().__init__(tools, ask_everything, asks=False)
        self._backends = backends
        self._rules = LineageRules.from_rules((*self._rules.sets[0].rules, *RULES))


class ExternalCast(Cast):
    def __init__(self, world: "ExternalWorld", stage: Stage, seed: int, grove: Grove) -> None:
        super().__init__(stage, seed, grove)
        self._world = world
        self._limits = grove.limits
        self._most = random.Random(f"lane:{seed}").choice([1, 2, 4])

    def setup(self, process: Process) -> Setup:
        props = Props(self._stage, process, self._seed).tools()
        backends = {agent: self._backend(agent, process) for agent in AGENTS}

        def open_workplaces(launcher: TaskLauncher) -> AbstractAsyncContextManager[Workplaces]:
            return nullcontext(Embassy((*props, *delegation_tools(launcher, self._limits)), backends))

        return replace(
            super().setup(process),
            open_workplaces=open_workplaces,
            build_external=partial(self._build_external, process),
            concurrency=with_external_lane(default_concurrency, self._most),
        )

    def _backend(self, agent: str, process: Process) -> AcpBackend:
        persona = self._world.foreign.personas[agent]
        newer = persona.moves and process.number % 3 == 0
        return AcpBackend(command=(agent, "new") if newer else (agent,), instructions=INSTRUCTIONS)

    def _build_external(
        self, process: Process, workplaces: Workplaces, group: asyncio.TaskGroup, clock: Clock
    ) -> ExternalAgents:
        return AcpAgents(
            partial(self._world.open_program, process=process), find_asks, group=group, clock=clock
        )


async def find_asks(step: ExternalStep, call: MergedCall) -> tuple[Ask, ...]:
    return call_asks(
        call, agent=step.agent, directory=step.directory, worktree=step.directory, home=Path("/home")
    )


class ExternalWorld(Scenario):
    def __init__(self, seed: int, path: Path) -> None:
        super().__init__(seed, path)
        assert self.grove is not None, "sessions launch sessions here"
        self.foreign = Foreign(seed, self.stage, AGENTS)
        self._luck = random.Random(f"programs:{seed}")
        self.setup = ExternalCast(self, self.stage, seed, self.grove).setup

    def draw_grove(self, seed: int) -> Grove:
        rng = random.Random(f"embassy:{seed}")
        limits = DelegationConfig(
            tools="both",
            depth=1,
            concurrent=rng.choice([1, 2, 5]),
            spawns=rng.choice([2, 4]),
            seconds=rng.choice([None, None, None, 30]),
        )
        agents = rng.choice([AGENTS, (*AGENTS, *AGENTS, PLAIN)])
        return Grove(limits=limits, launches=0.95, asks=False, sessions=rng.choice([4, 8, 12]), agents=agents)

    @asynccontextmanager
    async def open_program(self, step: ExternalStep, *, process: Process) -> AsyncIterator[ForeignProgram]:
        """Start a program; sometimes there is none."""
        await asyncio.sleep(self._luck.choice([0, 0.02, 0.5]))
        goes_on = step.known is not None and step.known.prompt is not None
        if self._luck.random() < (0.1 if goes_on else 0.02):
            self.foreign.not_started[step.step_id] = step
            raise ToolError("There is no such program: look for it.")
        assert self._group is not None, "opened when the world began"
        programs, name = self.foreign.programs, self.stage.name(step.session_id)
        program = ForeignProgram(len(programs) + 1, step, process, stage=self.stage, name=name)
        programs.append(program)
        serving = self._group.create_task(_serve(self.foreign, program))
        try:
            yield program
        finally:
            program.end()
            serving.cancel()
            await asyncio.wait([serving])

    def _begin(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        ambushes = [group.create_task(self._ambush_program()) for _ in range(self._luck.choice([0, 1, 3]))]
        return [*super()._begin(group), *ambushes]

    async def _ambush_program(self) -> None:
        """Crash the process of a program that works on a prompt, or that was just given an answer."""
        await asyncio.sleep(self._luck.random() * ACTIVE_SECONDS)
        after_answer = self._luck.random() < 0.5
        for _ in range(LONGEST_AMBUSH):
            await asyncio.sleep(0.1)
            if self._find_targets(after_answer=after_answer):
                await asyncio.sleep(self._luck.choice([0, 0.02, 0.5, 2]))
                if targets := self._find_targets(after_answer=after_answer):
                    self._luck.choice(targets).process.crash()
                    self.stage.count("programs cut off")
                return

    def _find_targets(self, *, after_answer: bool) -> list[ForeignProgram]:
        working = [program for program in self.foreign.programs if program.works]
        return [program for program in working if program.answered or not after_answer]

    async def _settle_all(self, session_id: SessionId) -> None:
        """People lose patience with programs that hang."""
        await super()._settle_all(session_id)
        if self.foreign.hangs(session_id):
            await self.stop(session_id, lambda r: r.abort(session_id, seconds=20))

    async def _drain(self, acts: list[asyncio.Task[None]]) -> None:
        await super()._drain(acts)
        for program in self.foreign.programs:
            if program.closed is None and program.process.number not in self.stage.suspects:
                self.stage.violate(f"X-03: a program of {program.step.session_id} lives on at rest")


async def _serve(foreign: Foreign, program: ForeignProgram) -> None:
    async with asyncio.TaskGroup() as group:
        await WildAgent(foreign, program, group).serve()
