"""The players of worlds of async calls: a model that makes several at once, and the tools it calls."""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, nullcontext

from msgspec import UNSET
from msgspec.structs import replace

from asyncagents import Completed, Failed, Pending, Tool, ToolContext
from asyncagents.app.assemble import Setup
from asyncagents.config.config import AsyncToolsConfig
from asyncagents.config.secret import Secret
from asyncagents.delegation.launch import TaskLauncher
from asyncagents.delegation.tools import delegation_tools
from asyncagents.domain.call.ask import Option, Question
from asyncagents.domain.call.call import Effect as CallEffect
from asyncagents.domain.call.call import Result
from asyncagents.domain.call.pending_tool import ToolResult
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.step import StepInfo
from asyncagents.domain.window import Window
from asyncagents.engine.runner import no_objection
from asyncagents.engine.tool import AnyTool, AsyncSpec, Execute, Outcome, Plan, ask_everything
from asyncagents.engine.workplace.workplace import Workplaces
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    ModelTurn,
    StepFinish,
    StreamFinish,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
    UserTurn,
)
from asyncagents.testing.clock import EPOCH_MS
from asyncagents.testing.process import Process
from tests.simulation.cast import Do, Props, Treehouse, WildModel, nobody_objects
from tests.simulation.park_post import PostOffice
from tests.simulation.park_stage import ParkStage
from tests.simulation.parks import BAD, BEGUN, WHO, Park, wishes

QUESTION = Question(question="Which?", header="Q", options=(Option(label="A", description="a"),))
FOUND = "it was done"
LAST = "last words"
"""Who hears this makes no more calls."""


async def _taken(result: ToolResult) -> str | None:
    await asyncio.sleep(0.01)
    return "it is bad" if result.output.startswith(BAD) else None


class ParkModel(WildModel):
    """It never fails: what is asked for again was lost with a process."""

    def __init__(self, stage: ParkStage, process: Process, seed: int, park: Park) -> None:
        super().__init__(stage, process, seed)
        self._park = park

    def window(self, model: ModelRef) -> Window:
        return Window(context=1_000_000, output=1000)

    async def _speak(
        self, request: ChatRequest, luck: random.Random, tries: int
    ) -> AsyncGenerator[ModelEvent, None]:
        rng = random.Random(f"{self._seed}:{len(request.messages)}:{request.messages[-1]}")
        yield StreamStart()
        await asyncio.sleep(rng.choice([0.1, 0.1, 2]) * rng.random())
        yield TextStart("t")
        yield TextDelta("t", "so ")
        await asyncio.sleep(luck.choice([0, 0, 1.2]))
        yield TextDelta("t", "be it")
        yield TextEnd("t")
        for event in self._calls(rng, request, tries):
            yield event
        yield StepFinish("stop", None)
        yield StreamFinish()

    def _calls(self, rng: random.Random, request: ChatRequest, tries: int) -> list[ModelEvent]:
        """Many at once; fewer and fewer, and none after so many."""
        made = sum(len(told.calls) for told in request.messages if isinstance(told, ModelTurn))
        last = any(isinstance(told, UserTurn) and LAST in told.text for told in request.messages)
        if last or made >= self._park.calls or rng.random() < 0.15 + made / 40:
            return []
        known = self._stage.known(self._stage.session_of(request.messages))
        launches = self._park.launches and known is not None and not known.depth
        events: list[ModelEvent] = []
        for number, tool in enumerate(wishes(rng, launches=launches)):
            key, name = f"c{tries}_{number}", f"t{tries}x{number}"
            said: dict[str, object] = {"n": rng.randrange(9)}
            if "task" in tool:
                role = "subagent_type" if tool == "task" else "agent"
                said = {"description": f"{name} work", "prompt": f"{name}:task", role: "general"}
            events += [ToolCallStart(key, tool), ToolCallReady(key, tool, said)]
        return events


class Parkhouse(Treehouse):
    """Steps without end, and nobody is reminded of anything."""

    reminds = False
    most_steps = 1000

    def reminders(self, stepping: StepInfo) -> tuple[str, ...]:
        return ()


class ParkCast:
    def __init__(self, stage: ParkStage, seed: int, park: Park) -> None:
        self._stage = stage
        self._seed = seed
        self._park = park

    def setup(self, process: Process) -> Setup:
        props = ParkProps(self._stage, process, self._seed).tools()

        def open_workplaces(launcher: TaskLauncher) -> AbstractAsyncContextManager[Workplaces]:
            tools = (*props, *delegation_tools(launcher, self._park.limits))
            return nullcontext(Parkhouse(tools, ask_everything, asks=False))

        return Setup(
            model=ParkModel(self._stage, process, self._seed, self._park),
            open_workplaces=open_workplaces,
            before_rest=no_objection if self._seed % 3 else nobody_objects,
            post=PostOffice(self._stage, process, self._seed),
            async_tools=AsyncToolsConfig(keep_days=self._park.keep / 86_400),
        )


class ParkProps(Props):
    def __init__(self, stage: ParkStage, process: Process, seed: int) -> None:
        super().__init__(stage, process, seed)
        self._book = stage

    def tools(self) -> tuple[AnyTool, ...]:
        return (
            Tool("look", Do, self._guarded(self._look), effect="none", timeout=20),
            Tool("pay", Do, self._guarded(self._pay), timeout=20),
            self._begun("job"),
            self._begun("errand", effect="idempotent"),
            self._begun("build"),
            self._begun("deploy", plan=self._ask),
            self._begun("survey"),
            Tool("old", Do, self._guarded(self._send_out), timeout=20),
            Tool("nap", Do, self._guarded(self._nap), effect="none", timeout=20),
            Tool("quiz", Do, self._guarded(self._quiz), effect="none", timeout=20),
            Tool("boom", Do, self._guarded(self._boom), effect="none", timeout=20),
        )

    def _guarded(self, run: Execute[Do]) -> Execute[Do]:
        guarded = super()._guarded(run)

        async def noted(args: Do, context: ToolContext) -> Outcome:
            running = self._book.running.setdefault(context.session_id, [])
            running.append(context.call_id)
            try:
                return await guarded(args, context)
            finally:
                running.remove(context.call_id)

        return noted

    def _begun(self, name: str, *, effect: CallEffect = "once", plan: Plan[Do] | None = None) -> AnyTool:
        """A tool of which is known that its work goes on elsewhere, before it says so."""
        spec = AsyncSpec(
            seconds=UNSET if name == "deploy" else BEGUN[name], validate=_taken if name == "build" else None
        )
        run = self._guarded(self._survey if name == "survey" else self._send_out)
        found = self._look_up if name == "build" else None
        return Tool(name, Do, run, effect=effect, plan=plan, timeout=20, spec=spec, reconcile=found)

    async def _look_up(self, args: Do, context: ToolContext) -> Result | None:
        """After a crash: who does the work is asked how it stands, and that takes a while."""
        rng = self._rng(context)
        await asyncio.sleep(3 * rng.random())
        return Completed(FOUND) if rng.random() < 0.2 else None

    async def _send_out(self, args: Do, context: ToolContext) -> Outcome:
        """Somebody outside has it from here on, and may be faster than this tool."""
        self._affect("job", context)
        errand = self._book.hire(context.call_id)
        if context.secret:
            self._book.secrets.setdefault(context.call_id, set()).add(context.secret)
        await asyncio.sleep(errand.begins)
        if args.n == 8:
            ends: list[Outcome] = [Completed("at once"), Failed("not today")]
            return self._rng(context).choice(ends)
        self._open(context, errand.seconds)
        return Pending(
            note="sent out",
            seconds=errand.seconds,
            on_due=errand.on_due,
            webhook_url=errand.webhook,
            webhook_secret=Secret(errand.secret) if errand.secret else None,
        )

    async def _survey(self, args: Do, context: ToolContext) -> Outcome:
        """A person may answer, or somebody who asked one elsewhere; the session need not wait."""
        waits = await self._send_out(args, context)
        if not isinstance(waits, Pending):
            return waits
        approval = bool(args.n % 2)
        return replace(waits, questions=(QUESTION,), approval=approval, who=WHO if approval else "")

    async def _nap(self, args: Do, context: ToolContext) -> Outcome:
        errand = self._book.hire(context.call_id, timer=True)
        await asyncio.sleep(errand.begins)
        self._open(context, errand.seconds)
        return Pending(kind="wait", seconds=errand.seconds, on_due=errand.on_due)

    async def _quiz(self, args: Do, context: ToolContext) -> Outcome:
        seconds = self._rng(context).choice([None, 6, 40])
        return Pending(kind="question", questions=(QUESTION,), seconds=seconds)

    def _open(self, context: ToolContext, seconds: float | None) -> None:
        if self._process.dead:
            raise asyncio.CancelledError
        now = EPOCH_MS + int(asyncio.get_running_loop().time() * 1000 + 0.001)
        due = None if seconds is None else now + int(seconds * 1000)
        self._book.opened(context.call_id, context.session_id, self._process.number, due)
