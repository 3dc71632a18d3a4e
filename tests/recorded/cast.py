"""The players of a recording: a scripted model, and tools that reach every state of a call."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents import Ask, Completed, Failed, Pending, Tool, ToolContext, approval
from asyncagents.app.assemble import Setup
from asyncagents.config.config import AsyncToolsConfig, DelegationConfig
from asyncagents.config.secret import Secret
from asyncagents.delegation.launch import TaskLauncher
from asyncagents.delegation.tools import delegation_tools
from asyncagents.domain.agent.permission import LineageRules, judge
from asyncagents.domain.call.call import Call
from asyncagents.domain.call.pending_tool import ToolResult
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import CacheTokens, Rule, Session, Tokens
from asyncagents.domain.window import Window
from asyncagents.engine.observer import NOOP_OBSERVER, Observer
from asyncagents.engine.tool import AnyTool, AsyncSpec, Outcome, PendingAtServer, Policy
from asyncagents.engine.webhook.delivery import DeliveryResponse, SignedRequest, WebhookResponse
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.hooks import HookName, NoHooks
from asyncagents.engine.workplace.snapshots import Snapshots
from asyncagents.engine.workplace.workplace import AskPolicy, FixedWorkplace, Workplaces
from asyncagents.llm.model import ChatRequest, ModelEvent, StepFinish, UserTurn
from asyncagents.llm.scripted import Fail, Pause, Say, ScriptedModel, ScriptStep, say
from asyncagents.testing.process import Process
from asyncagents.tools.builtin.question import question
from asyncagents.tools.builtin.todo import todowrite
from asyncagents.tools.builtin.wait import wait
from tests.simulation.undo_files import Disk, DiskSnapshots

Scene: TypeAlias = ScriptStep | Callable[[ChatRequest], ScriptStep]
Scenes: TypeAlias = Mapping[str, Sequence[Scene]]

RULES = LineageRules.from_rules(
    (
        Rule(permission="*", pattern="*", action="allow"),
        Rule(permission="touch", pattern="*", action="ask"),
        Rule(permission="doom_loop", pattern="*", action="ask"),
        Rule(permission="never", pattern="*", action="deny"),
    )
)
WORDS = "lorem ipsum dolor sit amet "
SUMMARY = "A summary of what was said so far."
TITLE = "A long question"
FILLING = "this fills the window"
FULL = Tokens(input=19_990, output=1, reasoning=0, cache=CacheTokens(read=0, write=0))
HOOK = "https://hooks.example.com"
WELL, GONE, FAILING = f"{HOOK}/well?token=hush", f"{HOOK}/gone", f"{HOOK}/failing"
ANSWERS = {GONE: 410, FAILING: 503}
"""How webhooks are answered while models fail, too; afterwards all are taken."""


class Terms(Struct, frozen=True, kw_only=True):
    """What differs between the processes that play: limits, patience, what stands outside."""

    hang: bool = True
    """Whether tools and streams that wait for a crash hang, and models fail; False: they go on."""
    concurrent: int = 20
    task_seconds: float | None = None
    asking: AskPolicy = AskPolicy()
    window: Window = Window()
    hooks: bool = False
    titles: bool = False
    disk: Disk | None = None
    """Files that can be put back; None: none are kept."""
    watch: Observer = NOOP_OBSERVER


class Given(Struct, frozen=True):
    """Do something with a text."""

    text: str = ""


class Job(Struct, frozen=True, kw_only=True):
    """Start work that ends elsewhere."""

    name: str
    seconds: float | None = None
    hook: str = ""
    signed: bool = False


class Much(Struct, frozen=True):
    """Return a long output."""

    words: int


class Command(Struct, frozen=True):
    """Run a command."""

    command: str


class Record(Struct):
    """What the players did to the world outside, by the effect key of the call."""

    runs: list[tuple[str, str]] = []
    """Tool and effect key, once for each run that came to its end."""
    letters: list[SignedRequest] = []


class Actor(ScriptedModel):
    """Play scenes: a step may be a function of the request; a summary and a title are always the same."""

    def __init__(self, scenes: Scenes, terms: Terms) -> None:
        script: Any = scenes
        super().__init__(script, window=terms.window)
        self._hang = terms.hang

    async def _play(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        """Report a full window for what was said to fill it."""
        async for event in super()._play(request):
            if isinstance(event, StepFinish) and request.messages[-1] == UserTurn(FILLING):
                yield replace(event, tokens=FULL)
            else:
                yield event

    def _step(self, request: ChatRequest) -> ScriptStep:
        if request.system == prompt_text("compaction"):
            return [say(SUMMARY)] if not self._hang or "hang" not in str(request.messages) else [Pause(9e9)]
        if request.system == prompt_text("title"):
            return [say(TITLE)]
        scene: Scene = super()._step(request)
        step = scene(request) if callable(scene) else scene
        if self._hang:
            return step
        lines = [line for line in step if not isinstance(line, Pause | Fail)]
        return lines or [Say(("Recovered.",))]


class Rewrite(NoHooks):
    """Change the arguments of one tool before it runs."""

    names: frozenset[HookName] = frozenset({"tool.execute.before"})

    async def tool_before(self, call: Call) -> dict[str, Any] | Failed:
        return {"text": "by a hook"} if call.tool == "echo" else call.input


class Office(FixedWorkplace):
    """A workplace with rules, so that what is approved for good counts."""

    worktree = "/srv"

    def __init__(self, tools: Sequence[AnyTool], terms: Terms, snapshots: Snapshots | None) -> None:
        super().__init__(tools, _allow, terms.asking, reader="asyncagents_output")
        self._titles = terms.titles
        if terms.hooks:
            self.hooks = Rewrite()
        if snapshots is not None:
            self.snapshots = snapshots

    def rules(self, agent: str, session: Session) -> LineageRules | None:
        return RULES

    def policy(self, agent: str, rules: LineageRules | None, approved: Sequence[Rule]) -> Policy:
        return lambda ask, context: judge(rules or RULES, approved, ask.permission, ask.patterns)

    def title_request(self, model: ModelRef) -> ChatRequest | None:
        return ChatRequest(model=model, messages=(), system=prompt_text("title")) if self._titles else None


def _allow(ask: Any, context: Any) -> Any:
    return "allow"


class Cast:
    """One process's model and tools."""

    def __init__(
        self, scenes: Scenes, terms: Terms, clock: Clock, record: Record, *, process: Process | None = None
    ) -> None:
        """`process`: the simulated one, whose files are on the disk of the terms."""
        self.model = Actor(scenes, terms)
        self._snapshots = DiskSnapshots(terms.disk, process, 1) if terms.disk and process else None
        self._terms = terms
        self._clock = clock
        self._record = record
        self._plans: dict[str, int] = {}

    def setup(self, *, serve: bool) -> Setup:
        terms = self._terms
        limits = DelegationConfig(
            tools="both", concurrent=terms.concurrent, seconds=terms.task_seconds, depth=3
        )

        def open_workplaces(launcher: TaskLauncher) -> AbstractAsyncContextManager[Workplaces]:
            tools = (*self.tools(), todowrite(launcher.store.todos, launcher.ids))
            tools = (*tools, *delegation_tools(launcher, limits))
            return nullcontext(Office(tools, terms, self._snapshots))

        return Setup(
            model=self.model,
            open_workplaces=open_workplaces,
            serve=serve,
            async_tools=AsyncToolsConfig(),
            post=self._post,
            observer=terms.watch,
        )

    async def _post(self, request: SignedRequest) -> DeliveryResponse:
        self._record.letters.append(request)
        return WebhookResponse(ANSWERS.get(request.url, 200) if self._terms.hang else 200)

    def tools(self) -> tuple[AnyTool, ...]:
        checked = AsyncSpec(estimated_seconds=90, validate=_validate)
        return (
            Tool("echo", Given, self._echo, effect="none"),
            Tool("careful", Given, self._echo, plan=_touch),
            Tool("fickle", Given, self._echo, plan=self._change_of_mind),
            Tool("forbidden", Given, self._echo, plan=_never),
            Tool("boom", Given, self._boom, effect="none"),
            Tool("much", Much, self._much, effect="none"),
            Tool("press", Given, self._hang),
            Tool("stir", Given, self._hang, effect="idempotent"),
            Tool("peek", Given, self._hang, effect="none"),
            Tool("begin", Job, self._begin, spec=AsyncSpec(seconds=864_000)),
            Tool("ship", Job, self._ship, spec=AsyncSpec(seconds=864_000)),
            Tool("build", Job, self._ship, spec=checked),
            Tool("hand_over", Job, self._hand_over),
            Tool("bash", Command, self._bash),
            Tool("edit", Given, self._edit),
            _sign_off(),
            question(),
            wait(self._clock),
        )

    def _ran(self, context: ToolContext, tool: str) -> None:
        self._record.runs.append((tool, context.effect_key))

    async def _echo(self, args: Given, context: ToolContext) -> Outcome:
        self._ran(context, "echo")
        return Completed(args.text, "An echo", {"length": len(args.text)})

    async def _boom(self, args: Given, context: ToolContext) -> Outcome:
        raise RuntimeError(f"boom: {args.text}")

    async def _much(self, args: Much, context: ToolContext) -> Outcome:
        return Completed(WORDS * args.words)

    async def _hang(self, args: Given, context: ToolContext) -> Outcome:
        if self._terms.hang:
            await asyncio.sleep(9e9)
        self._ran(context, "hang")
        return Completed(f"did {args.text}")

    async def _begin(self, args: Job, context: ToolContext) -> Outcome:
        """Hang before it says that it waits: the work may have begun."""
        if self._terms.hang:
            await asyncio.sleep(9e9)
        self._ran(context, "begin")
        return Pending(note=f"{args.name} begun", external_ref=args.name)

    async def _ship(self, args: Job, context: ToolContext) -> Outcome:
        self._ran(context, "ship")
        own = Secret("whsec_" + "c2VjcmV0" * 4) if args.signed else None
        waits: dict[str, Any] = {} if args.seconds is None else {"seconds": args.seconds}
        return Pending(
            note=f"{args.name} queued",
            external_ref=f"job-{args.name}",
            webhook_url=args.hook,
            secret=own,
            webhook_secret=own,
            estimated_seconds=60,
            metadata={"queue": "fast"},
            **waits,
        )

    async def _hand_over(self, args: Job, context: ToolContext) -> Outcome:
        """Wait for an MCP server, which no process of a recording can reach."""
        self._ran(context, "hand_over")
        task = ServerTask(server="kit", id=f"task-{args.name}", poll_ms=60_000)
        return PendingAtServer(note=f"{args.name} handed over", external_ref=task.id, server_task=task)

    async def _bash(self, args: Command, context: ToolContext) -> Outcome:
        self._ran(context, "bash")
        return Completed(f"$ {args.command}")

    async def _edit(self, args: Given, context: ToolContext) -> Outcome:
        if self._terms.disk is not None:
            self._terms.disk.files["notes.txt"] = args.text
        return Completed("edited")

    async def _change_of_mind(self, args: Given, context: ToolContext) -> tuple[Ask, ...]:
        """Name another pattern from the second plan on, as if a file had changed."""
        times = self._plans[context.call_id] = self._plans.get(context.call_id, 0) + 1
        return (Ask("touch", (f"{args.text} {min(times, 2)}",)),)


async def _touch(args: Given, context: ToolContext) -> tuple[Ask, ...]:
    return (Ask("touch", (args.text,), always=(args.text,), metadata={"preview": args.text}),)


async def _never(args: Given, context: ToolContext) -> tuple[Ask, ...]:
    return (Ask("never", (args.text,)),)


async def _validate(result: ToolResult) -> str | None:
    return "it is empty" if not result.output else None


def _sign_off() -> AnyTool:
    @approval(name="sign_off", who="the release team", seconds=864_000)
    async def sign_off(what: str) -> str:
        """Ask whether something may be released."""
        return f"May {what} be released?"

    return sign_off


def at_rest(terms: Terms) -> Terms:
    """The same players when nothing hangs or fails any more."""
    return replace(terms, hang=False)
