"""The tool contract: `plan` says what it would touch, `run` does it; the result is the call's next state."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from asyncagents.config.secret import Secret
from asyncagents.domain.ask import Question
from asyncagents.domain.call import Completed, Effect, Failed, Kind, Open, Result, Watch
from asyncagents.domain.fact import Fact
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.pending_tool import ToolResult
from asyncagents.domain.permission import Effective
from asyncagents.domain.window import BYTES_A_TOKEN, words
from asyncagents.engine.abort import AbortSignal
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import ToolSpec

A = TypeVar("A")

TEN_MINUTES = 600.0


class Ask(Struct, frozen=True):
    """What a tool would touch: checked against the rules before it runs."""

    permission: str
    patterns: tuple[str, ...] = ("*",)
    always: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    """Permissions that the same patterns need besides."""
    exact: bool = False
    """Whether `always` holds the text itself, which no other text fits, instead of patterns."""
    narrow: bool = False
    """Whether only approvals of `always` itself answer it; else every approved pattern that fits does."""


def unheard(metadata: dict[str, Any]) -> None:
    """Nobody listens."""


def unkept(title: str | None, metadata: dict[str, Any]) -> None:
    """Nobody keeps it."""


class Callback(Struct, frozen=True):
    """How the result of an async tool may be brought, besides by the library."""

    secret: Secret
    url: str | None = None


class ToolContext(Struct, frozen=True, kw_only=True):
    session_id: SessionId
    message_id: MessageId
    call_id: CallId
    """Also the effect key: the same for every run of this call, and the pending id of an async tool."""
    agent: str
    directory: str
    by_hand: bool = False
    """A person wrote its arguments, not a model."""
    own: bool = False
    """A person runs it himself, with no model in between."""
    approved: bool = False
    """A person saw this call and let it run, or wrote it; else rules alone did."""
    rules: Effective | None = None
    """What counts for this call beyond what it asked for; None: there are none but the policy."""
    report: Callable[[dict[str, Any]], None] = unheard
    """Tells people how a long call gets on. It is shown, at times, and not kept."""
    keep: Callable[[str | None, dict[str, Any]], None] = unkept
    worktree: str = ""
    """The root of the project; the directory itself, if it is in no worktree."""
    abort: AbortSignal = field(default_factory=AbortSignal)
    """Set when the call shall end; a coroutine is cancelled besides."""
    environment: Mapping[str, str] = {}
    """Variables for the programs it starts, besides those that they get anyway."""
    callback: Callback | None = None
    """Of an async tool."""
    trace: str | None = None
    """Where the call stands in a trace: the `traceparent` of what it starts elsewhere. None: nowhere."""

    @property
    def effect_key(self) -> str:
        """The same for every run of this call: give it to whoever must not do the same thing twice."""
        return self.call_id

    @property
    def pending_id(self) -> CallId:
        """Under which the result of a pending call is given."""
        return self.call_id

    @property
    def callback_url(self) -> str | None:
        """Where the result can be posted: below `async_tools.url`, else by the server of this process."""
        return self.callback.url if self.callback else None

    @property
    def secret(self) -> str:
        """What the posted result is signed with, in the form of Standard Webhooks; tell only who sends it."""
        return self.callback.secret.reveal() if self.callback else ""

    def metadata(self, metadata: dict[str, Any] | None = None, *, title: str | None = None) -> None:
        """For people: shown while it runs, and kept unless the result says otherwise. From any thread."""
        self.keep(title, metadata or {})


class Pending(Struct, frozen=True, kw_only=True):
    """Return it to wait: nothing runs until a result, an answer or the deadline comes."""

    kind: Kind = "async"
    note: str = ""
    seconds: float | UnsetType | None = UNSET
    """How long; None: for ever. Not given: as long as its tool says, or a day."""
    due: int | None = None
    """Until when, in ms since the epoch; goes before `seconds`."""
    on_due: Result | None = None
    questions: tuple[Question, ...] = ()
    """With kind async, whoever answers first counts: a person, or a result from outside."""
    who: str = ""
    """Whom it asks, in words: a person, a role, a channel."""
    approval: bool = False
    """The one question has options, and the answer is a decision: one of them, perhaps with a remark."""
    watch: Watch | None = None
    """A task whose end it waits for."""
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    """For people, while it is waited for."""
    external_ref: str = ""
    """What the other side calls it."""
    estimated_seconds: float | None = None
    """A hint for people; it never makes the time shorter."""
    secret: Secret | None = None
    """What results are signed with, if the other side chose it; the context's own counts as well."""
    webhook_url: str = ""
    """Who is told when the call is settled."""
    webhook_secret: Secret | None = None
    """What that is signed with; the context's own, if not given."""


class Together(Struct, frozen=True):
    """A result, or a wait, and facts of our own store that commit with it or not at all."""

    result: Result | Pending
    facts: tuple[Fact, ...]


class Opened(Struct, frozen=True):
    """A tool waits from here on, and what commits with that."""

    state: Open
    facts: tuple[Fact, ...] = ()


Outcome: TypeAlias = Completed | Failed | Pending | Together
Ended: TypeAlias = Completed | Failed | Together | Opened
Plan: TypeAlias = Callable[[A, ToolContext], Awaitable[tuple[Ask, ...]]]
Execute: TypeAlias = Callable[[A, ToolContext], Awaitable[Outcome]]
Reconcile: TypeAlias = Callable[[A, ToolContext], Awaitable[Result | None]]
Validate: TypeAlias = Callable[[ToolResult], Awaitable[str | None]]
"""What is wrong with a result from outside; None: nothing."""


class Lasting(Struct, frozen=True, kw_only=True):
    """Of a tool that only starts its work: the result comes later, from outside."""

    seconds: float | UnsetType | None = UNSET
    """How long it may take; None: for ever. Not given: as the configuration says, or a day."""
    estimated_seconds: float | None = None
    validate: Validate | None = None
    who: str = ""
    """Whom its calls ask, unless they say otherwise."""
    approval: bool = False
    """It asks for a decision: also after a crash that left nothing of its own question."""


class Tool(Generic[A]):
    """A value: the type of its arguments is its schema, their docstring, if need be, its description."""

    def __init__(  # noqa: PLR0913  a tool is described by so much
        self,
        name: str,
        args: type[A],
        run: Execute[A],
        *,
        plan: Plan[A] | None = None,
        effect: Effect = "once",
        timeout: float = TEN_MINUTES,
        reconcile: Reconcile[A] | None = None,
        description: str = "",
        parameters: dict[str, Any] | None = None,
        lasting: Lasting | None = None,
    ) -> None:
        """`parameters`: their schema, where somebody else wrote it; the arguments are then a plain dict."""
        self.name = name
        self.args = args
        self.run = run
        self.plan = plan
        self.effect: Effect = effect
        self.timeout = timeout
        self.reconcile = reconcile
        self.parameters = parameters
        self.lasting = lasting
        self.description = description or (self.args.__doc__ or name).strip()

    def planned(self, plan: Plan[A]) -> "Tool[A]":
        """The same tool with another plan."""
        tool = copy(self)
        tool.plan = plan
        return tool

    def named(self, name: str) -> "Tool[A]":
        """The same tool under another name."""
        tool = copy(self)
        tool.name = name
        return tool

    def spec(self) -> ToolSpec:
        """Its arguments are an object at the top: some providers do not follow a reference there."""
        if self.parameters is not None:
            return self._spec(self.parameters)
        (schema,), others = msgspec.json.schema_components([self.args], ref_template="#/$defs/{name}")
        if "$ref" in schema:
            name = schema["$ref"].removeprefix("#/$defs/")
            schema = others[name]
            if f"'#/$defs/{name}'" not in str(others):  # else it is made of itself
                del others[name]
        schema = {key: value for key, value in schema.items() if key not in ("title", "description")}
        return self._spec({**schema, "$defs": others} if others else schema)

    def _spec(self, parameters: dict[str, Any]) -> ToolSpec:
        tokens = words(self.description) + len(msgspec.json.encode(parameters)) // BYTES_A_TOKEN
        return ToolSpec(self.name, self.description, parameters, tokens)


AnyTool: TypeAlias = Tool[Any]


class Policy(Protocol):
    """Decides an ask: go on, refuse, or let a person decide."""

    def __call__(self, ask: Ask, context: ToolContext) -> Literal["allow", "deny", "ask"]: ...


def ask_everything(ask: Ask, context: ToolContext) -> Literal["allow", "deny", "ask"]:
    """No rules are known, so a person decides."""
    return "ask"


def check_tools(tools: Sequence[AnyTool]) -> None:
    """Those that somebody brings."""
    for tool in tools:
        if not isinstance(tool, Tool):  # types are promised, not checked
            raise InvalidInput(f"{tool!r} is no tool: put @tool above the function, or make a Tool")
    names = [tool.name for tool in tools]
    if len(names) != len(set(names)):
        raise InvalidInput(f"two tools have the same name; the names are {', '.join(sorted(names))}")
