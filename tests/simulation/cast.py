"""The players: a model that does anything a model may do, and tools of every kind."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from msgspec import Struct
from msgspec.structs import replace

from asyncagents import Ask, Completed, Failed, Pending, Tool, ToolContext
from asyncagents.app.assemble import Setup
from asyncagents.delegation.launch import TaskLauncher
from asyncagents.delegation.tools import delegation_tools
from asyncagents.domain.agent.permission import LineageRules, judge
from asyncagents.domain.call.ask import Option, Question
from asyncagents.domain.conversation.failure import api_error, context_overflow_error
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import CacheTokens, Rule, Session, Tokens
from asyncagents.domain.session_state import RestReason, Snapshot
from asyncagents.domain.step import StepInfo
from asyncagents.domain.window import Window
from asyncagents.engine.runner import RestVerdict, no_objection
from asyncagents.engine.tool import AnyTool, Outcome, Policy, ask_everything
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.workplace import Brief, FixedWorkplace, Workplaces
from asyncagents.llm.model import (
    ChatRequest,
    Finish,
    ModelEvent,
    ModelTurn,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepFinish,
    StreamError,
    StreamFinish,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
    UserTurn,
)
from asyncagents.testing.process import Process
from tests.simulation.fault_watch import Boom, HungUp
from tests.simulation.stage import Effect, Stage
from tests.simulation.trees import TREE_STEPS, Call, Grove, delegating, waiting

TOOLS = (
    "look",
    "look",
    "put",
    "pay",
    "pay",
    "job",
    "early",
    "nap",
    "gate",
    "gate",
    "quiz",
    "boom",
    "slow",
    "none",
)
WINDOW = Window(context=500, output=100)
TREE_WINDOW = Window(context=1500, output=300)
LONGEST_TURN = 4
MOST_STEPS = 3
ENDS: tuple[Finish | None, ...] = ("stop", None, "length", "content-filter", "error", "unknown")
WEIGHTS = (80, 4, 4, 2, 2, 1)


class Do(Struct, frozen=True):
    """Do something."""

    n: int = 0


class WildModel:
    """What it says depends only on the seed and on what it was told."""

    def __init__(self, stage: Stage, process: Process, seed: int, grove: Grove | None = None) -> None:
        self._stage = stage
        self._process = process
        self._seed = seed
        self._grove = grove

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        summary = request.system == prompt_text("compaction")
        if summary:
            session = self._stage.summarised_by(request.messages, self._process.number)
        else:
            session = self._stage.session_of(request.messages)
        if summary and not session:  # its name was among what the digest had no room for
            self._stage.count("nameless summaries")
            yield StreamError(api_error("of whom?", is_retryable=False))
            return
        tries = self._stage.asked(session, request.messages, summary=summary)
        luck = random.Random(f"{self._seed}:{session}:{tries}")
        self._stage.ask(session, self._process.number)
        self._stage.enter(session, self._process.number)
        try:
            async for event in self._sum_up(session, luck) if summary else self._speak(request, luck, tries):
                yield event
        finally:
            self._stage.leave(session, self._process.number)

    def window(self, model: ModelRef) -> Window:
        return TREE_WINDOW if self._grove else WINDOW

    async def _sum_up(self, session: str, luck: random.Random) -> AsyncGenerator[ModelEvent, None]:
        """Summaries fail, too."""
        await asyncio.sleep(luck.random())
        if luck.random() < 0.2:
            yield _trouble(luck) if luck.random() < 0.7 else StreamError(api_error("no", is_retryable=False))
            return
        yield TextStart("t")
        if luck.random() < 0.9:
            yield TextDelta("t", f"{session}: what there was")
        await asyncio.sleep(luck.choice([0, 1.2]))
        yield TextEnd("t")
        self._stage.summarised.add(session)
        yield StepFinish("stop", _tokens(luck))
        yield StreamFinish()

    async def _speak(
        self, request: ChatRequest, luck: random.Random, tries: int
    ) -> AsyncGenerator[ModelEvent, None]:
        rng = random.Random(f"{self._seed}:{len(request.messages)}:{request.messages[-1]}")
        yield StreamStart()
        await asyncio.sleep(rng.random())
        if luck.random() < 0.1:
            yield _trouble(luck)
            return
        (finish,) = luck.choices(ENDS, WEIGHTS)
        async for event in _text(rng):
            yield event
        if luck.random() < 0.08:
            yield _trouble(luck) if luck.random() < 0.6 else StreamError(api_error("no", is_retryable=False))
            return
        if rng.random() < 0.03:
            raise HungUp("the provider hung up")
        if luck.random() < 0.03:
            await asyncio.sleep(40)
        for event in self._calls(rng, request, tries):
            yield event
        if finish is not None:
            yield StepFinish(finish, _tokens(rng) if rng.random() < 0.8 else None)
            yield StreamFinish()

    def _calls(self, rng: random.Random, request: ChatRequest, tries: int) -> list[ModelEvent]:
        """Fewer and fewer the longer the turn: it ends."""
        steps = 0
        for told in reversed(request.messages):
            if isinstance(told, UserTurn):
                break
            steps += isinstance(told, ModelTurn)
        most = 0.95 if self._grove else 0.75
        if rng.random() > most - 0.75 * steps / LONGEST_TURN:
            return []
        events: list[ModelEvent] = []
        for number in range(rng.choice([1, 1, 2, 3])):
            key = f"c{tries}_{number}"
            call = self._delegated(rng, request, f"t{tries}x{number}") if self._grove else None
            tool = call.tool if call else rng.choice(TOOLS)
            events.append(ToolCallStart(key, tool))
            if rng.random() < 0.97:
                given = call.input if call else {"n": rng.randrange(9)}
                events.append(ToolCallReady(key, tool, given))
        return events

    def _delegated(self, rng: random.Random, request: ChatRequest, name: str) -> Call | None:
        """The deeper it is, the less it has others do its work."""
        assert self._grove is not None, "this is a world of trees"
        known = self._stage.known(self._stage.session_of(request.messages))
        depth = known.depth if known else 0
        if self._grove.waits and (call := waiting(rng, request.messages, depth)) is not None:
            return call
        if rng.random() > self._grove.launches / (1 + depth / 4):
            return None
        room = self._stage.launched < self._grove.sessions - len(self._stage.sessions)
        call = delegating(rng, request.messages, name, grove=self._grove, launches=room)
        self._stage.launched += name in call.input.get("description", "")
        return call


def _trouble(luck: random.Random) -> StreamError:
    """It passes: with a summary, at once, after a short wait, or after a long one that no run sits out."""
    if luck.random() < 0.2:
        return StreamError(context_overflow_error("too much"))
    status = luck.choice([429, 529, None])
    return StreamError(
        api_error("overloaded", is_retryable=True, status_code=status),
        luck.choice([None, 0.0, 1.5, 8.0, 30.0]),
    )


async def _text(rng: random.Random) -> AsyncGenerator[ModelEvent, None]:
    if rng.random() < 0.2:
        yield ReasoningStart("r")
        yield ReasoningDelta("r", "hm")
        yield ReasoningEnd("r")
    if rng.random() < 0.85:
        yield TextStart("t")
        for number in range(rng.randrange(4)):
            await asyncio.sleep(rng.choice([0, 0.05, 1.2]))
            yield TextDelta("t", f"chunk{number} ")
        yield TextEnd("t")


def _tokens(rng: random.Random) -> Tokens:
    return Tokens(
        input=rng.randrange(50), output=rng.randrange(9), reasoning=0, cache=CacheTokens(read=0, write=0)
    )


class Cast:
    """The setup of one process; its tools tell the stage what they do to the world."""

    def __init__(self, stage: Stage, seed: int, grove: Grove | None = None) -> None:
        self._stage = stage
        self._seed = seed
        self._grove = grove

    def setup(self, process: Process) -> Setup:
        model = WildModel(self._stage, process, self._seed, self._grove)
        props = Props(self._stage, process, self._seed).tools()
        before_rest = no_objection if self._seed % 3 else nobody_objects
        grove = self._grove
        if grove is None:
            place = Gatehouse(props, ask_everything)
            return Setup(
                model=model, open_workplaces=lambda launcher: nullcontext(place), before_rest=before_rest
            )

        def open_workplaces(launcher: TaskLauncher) -> AbstractAsyncContextManager[Workplaces]:
            tools = (*props, *delegation_tools(launcher, grove.limits))
            return nullcontext(Treehouse(tools, ask_everything, asks=grove.asks))

        return Setup(model=model, open_workplaces=open_workplaces, before_rest=before_rest)


async def nobody_objects(snapshot: Snapshot, reason: RestReason) -> RestVerdict:
    """As if somebody had been asked: then a turn does not end together with its last step."""
    return ()


class Gatehouse(FixedWorkplace):
    """Everything that asks is asked, until it is approved for good; a turn has so many steps."""

    reminds = True
    most_steps = MOST_STEPS

    def rules(self, agent: str, session: Session) -> LineageRules | None:
        return LineageRules.from_rules((Rule(permission="*", pattern="*", action="ask"),))

    def brief(self, agent: str, rules: LineageRules | None) -> Brief:
        return replace(super().brief(agent, rules), steps=self.most_steps)

    def policy(self, agent: str, rules: LineageRules | None, approved: Sequence[Rule]) -> Policy:
        assert rules is not None
        return lambda ask, context: judge(rules, approved, ask.permission, ask.patterns)

    def reminders(self, stepping: StepInfo) -> tuple[str, ...]:
        first = ("Mind the gap.",) if stepping.asked and stepping.agent_before is None else ()
        return (*first, "The last one.") if stepping.number >= self.most_steps else first


class Treehouse(Gatehouse):
    """Launches may be free. What tools are for is not told: this model knows, and has little room."""

    most_steps = TREE_STEPS

    def __init__(self, tools: Sequence[AnyTool], policy: Policy, *, asks: bool) -> None:
        super().__init__(tools, policy, reader="asyncagents_output")
        free = () if asks else (Rule(permission="task", pattern="*", action="allow"),)
        self._rules = LineageRules.from_rules((Rule(permission="*", pattern="*", action="ask"), *free))

    def rules(self, agent: str, session: Session) -> LineageRules | None:
        return self._rules

    def brief(self, agent: str, rules: LineageRules | None) -> Brief:
        return replace(super().brief(agent, rules), specs=())


class Props:
    def __init__(self, stage: Stage, process: Process, seed: int) -> None:
        self._stage = stage
        self._process = process
        self._seed = seed

    def tools(self) -> tuple[AnyTool, ...]:
        gate = Tool("gate", Do, self._guarded(self._pay), plan=self._ask, timeout=20)
        return (
            Tool("look", Do, self._guarded(self._look), effect="none", timeout=20),
            Tool("put", Do, self._guarded(self._pay), effect="idempotent", timeout=20),
            Tool("pay", Do, self._guarded(self._pay), timeout=20),
            Tool("job", Do, self._guarded(self._job), timeout=20),
            Tool("early", Do, self._guarded(self._early), timeout=20),
            Tool("nap", Do, self._guarded(self._nap), effect="none", timeout=20),
            gate,
            Tool("quiz", Do, self._guarded(self._quiz), effect="none", timeout=20),
            Tool("boom", Do, self._guarded(self._boom), effect="none", timeout=20),
            Tool("slow", Do, self._guarded(self._slow), effect="none", timeout=2),
        )

    def _guarded(
        self, run: Callable[[Do, ToolContext], Awaitable[Outcome]]
    ) -> Callable[[Do, ToolContext], Awaitable[Outcome]]:
        """Two processes never work on one session."""

        async def guarded(args: Do, context: ToolContext) -> Outcome:
            session = self._stage.name(context.session_id)
            self._stage.enter(session, self._process.number)
            try:
                return await run(args, context)
            finally:
                self._stage.leave(session, self._process.number)

        return guarded

    def _affect(self, tool: str, context: ToolContext) -> None:
        """A dead process touches nothing."""
        if self._process.dead:
            raise asyncio.CancelledError
        at = asyncio.get_running_loop().time()
        self._stage.effects.append(
            Effect(context.call_id, context.session_id, tool, self._process.number, at)
        )

    def _rng(self, context: ToolContext) -> random.Random:
        return random.Random(f"{self._seed}:{context.call_id}:{self._process.number}")

    async def _ask(self, args: Do, context: ToolContext) -> tuple[Ask, ...]:
        return (Ask("gate", (f"{args.n}",), (f"{args.n}",)),)

    async def _look(self, args: Do, context: ToolContext) -> Outcome:
        await asyncio.sleep(self._rng(context).random())
        return Completed("seen")

    async def _pay(self, args: Do, context: ToolContext) -> Outcome:
        rng = self._rng(context)
        await asyncio.sleep(rng.choice([0, 0, 1.0]) * rng.random())
        self._affect("pay", context)
        await asyncio.sleep(rng.choice([0, 1.0]) * rng.random())
        return Completed("paid")

    async def _job(self, args: Do, context: ToolContext) -> Outcome:
        self._stage.jobs.append(context.call_id)
        await asyncio.sleep(self._rng(context).random())
        return Pending(note="started", seconds=self._rng(context).choice([3, 20, 60]))

    async def _early(self, args: Do, context: ToolContext) -> Outcome:
        """The outside is faster than the tool."""
        self._stage.jobs.append(context.call_id)
        runtime = self._process.runtime
        assert runtime is not None
        result = Completed(f"early {context.call_id}")
        await runtime.complete(context.call_id, result.output)
        self._stage.acknowledged_result(context.call_id, result)
        return Pending(seconds=60)

    async def _nap(self, args: Do, context: ToolContext) -> Outcome:
        return Pending(kind="wait", seconds=self._rng(context).choice([1, 5, 15]))

    async def _quiz(self, args: Do, context: ToolContext) -> Outcome:
        question = Question(question="Which?", header="Q", options=(Option(label="A", description="a"),))
        return Pending(kind="question", questions=(question,), seconds=None)

    async def _boom(self, args: Do, context: ToolContext) -> Outcome:
        if args.n % 2:
            raise Boom("boom")
        return Failed("no")

    async def _slow(self, args: Do, context: ToolContext) -> Outcome:
        await asyncio.sleep(30)
        return Completed("never")
