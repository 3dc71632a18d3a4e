"""The tool contract: `plan` returns the asks of a call, `run` executes it and returns its outcome."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from asyncagents.config.secret import Secret
from asyncagents.domain.agent.permission import LineageRules
from asyncagents.domain.call.ask import Question
from asyncagents.domain.call.call import Completed, Effect, Failed, Open, OpenKind, Result, WaitFor
from asyncagents.domain.call.pending_tool import ToolResult
from asyncagents.domain.call.server_task import ServerTask
from asyncagents.domain.fact import Fact
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.self_contained import schema_of_type
from asyncagents.domain.window import BYTES_A_TOKEN, estimate_text
from asyncagents.errors import InvalidInput
from asyncagents.llm.model import ToolSpec


class AbortSignal:
    """Set once, by the engine on its event loop; readable from any thread."""

    def __init__(self) -> None:
        self._threads = threading.Event()
        self._tasks = asyncio.Event()

    def set(self) -> None:
        self._threads.set()
        self._tasks.set()

    def is_set(self) -> bool:
        return self._threads.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block a thread until the signal is set; return False if `timeout` seconds passed first."""
        return self._threads.wait(timeout)

    async def until_set(self) -> None:
        """Wait in a coroutine until the signal is set."""
        await self._tasks.wait()


A = TypeVar("A")

DEFAULT_TIMEOUT_SECONDS = 600.0


class Ask(Struct, frozen=True):
    """A permission and the patterns that a call needs, checked against the rules before it runs."""

    permission: str
    patterns: tuple[str, ...] = ("*",)
    always: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    """Further permissions that the same patterns need."""
    exact: bool = False
    """Whether `always` holds the exact text instead of patterns."""
    narrow: bool = False
    """Whether only approvals of `always` itself answer the ask; else any approved pattern that fits."""


def ignore_report(metadata: dict[str, Any]) -> None:
    """Drop a report."""


def ignore_kept(title: str | None, metadata: dict[str, Any]) -> None:
    """Drop kept metadata."""


class ResultWebhook(Struct, frozen=True):
    """The webhook that takes the result of a call: its URL, if any, and its secret."""

    secret: Secret
    url: str | None = None


class ToolContext(Struct, frozen=True, kw_only=True):
    """The call that a tool runs for, with its session, its agent and its directory."""

    session_id: SessionId
    message_id: MessageId
    call_id: CallId
    """Also the effect key (the same for every run of this call) and the pending id of an async tool."""
    agent: str
    directory: str
    by_hand: bool = False
    """Whether a person wrote its arguments, not a model."""
    own: bool = False
    """Whether a person runs it directly, without a model."""
    approved: bool = False
    """Whether a person allowed or wrote this call; else only rules allowed it."""
    rules: LineageRules | None = None
    """The effective rules of this call; None: there is only a policy."""
    report: Callable[[dict[str, Any]], None] = ignore_report
    """Reports the progress of a long call: published at intervals, not stored."""
    keep: Callable[[str | None, dict[str, Any]], None] = ignore_kept
    worktree: str = ""
    """Root of the project; the directory itself if it is in no worktree."""
    abort: AbortSignal = field(default_factory=AbortSignal)
    """Set when the call must end; a coroutine is cancelled as well."""
    environment: Mapping[str, str] = {}
    """Additional environment variables for the programs it starts."""
    callback: ResultWebhook | None = None
    """The webhook for the result of an async tool."""
    trace: str | None = None
    """The `traceparent` of the call, for what it starts elsewhere. None: it is not traced."""

    @property
    def effect_key(self) -> str:
        """Idempotency key, the same for every run of this call: pass it to services it calls."""
        return self.call_id

    @property
    def pending_id(self) -> CallId:
        """The id to submit the result of a pending call under."""
        return self.call_id

    @property
    def callback_url(self) -> str | None:
        """URL to post the result to: below `async_tools.url`, else at the server of this process."""
        return self.callback.url if self.callback else None

    @property
    def secret(self) -> str:
        """Secret that signs the posted result (Standard Webhooks); pass it only to the service that posts."""
        return self.callback.secret.reveal() if self.callback else ""

    def metadata(self, metadata: dict[str, Any] | None = None, *, title: str | None = None) -> None:
        """Show metadata and a title to people while the call runs, and store them. Thread-safe."""
        self.keep(title, metadata or {})


class Pending(Struct, frozen=True, kw_only=True):
    """Return it from a tool to wait: nothing runs until a result, an answer or the deadline comes."""

    kind: OpenKind = "async"
    note: str = ""
    seconds: float | UnsetType | None = UNSET
    """How long to wait; None: without limit. Not given: the tool's own time, or a day."""
    due: int | None = None
    """Deadline in ms since the epoch; overrides `seconds`."""
    on_due: Result | None = None
    questions: tuple[Question, ...] = ()
    """Questions to a person; with kind async the first counts: the answer, or a result from outside."""
    who: str = ""
    """Who is asked, in words: a person, a role, a channel."""
    approval: bool = False
    """Whether its one question is a decision: the answer is one of its options, perhaps with a remark."""
    watch: WaitFor | None = None
    """The task whose end it waits for."""
    title: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Shown to people while the call waits."""
    external_ref: str = ""
    """The other side's id of the work."""
    estimated_seconds: float | None = None
    """A hint for people; it never shortens the wait."""
    secret: Secret | None = None
    """Secret that signs results, if the other side chose it; the context's own is valid as well."""
    webhook_url: str = ""
    """URL of the webhook to send when the call is settled."""
    webhook_secret: Secret | None = None
    """Secret that signs that webhook; default: the context's own."""


class PendingAtServer(Pending, frozen=True, kw_only=True):
    """A call for which an MCP server works: it is polled for the result."""

    server_task: ServerTask


class WithFacts(Struct, frozen=True):
    """A result, or a wait, and facts that commit in the same transaction."""

    result: Result | Pending
    facts: tuple[Fact, ...]


class OpenedCall(Struct, frozen=True):
    """The open state of a call that waits, and facts that commit with it."""

    state: Open
    facts: tuple[Fact, ...] = ()


Outcome: TypeAlias = Completed | Failed | Pending | WithFacts
CallOutcome: TypeAlias = Completed | Failed | WithFacts | OpenedCall
Plan: TypeAlias = Callable[[A, ToolContext], Awaitable[tuple[Ask, ...]]]
Execute: TypeAlias = Callable[[A, ToolContext], Awaitable[Outcome]]
Reconcile: TypeAlias = Callable[[A, ToolContext], Awaitable[Result | None]]
Validate: TypeAlias = Callable[[ToolResult], Awaitable[str | None]]
"""Returns what is wrong with a result from outside; None: nothing."""


class AsyncSpec(Struct, frozen=True, kw_only=True):
    """Settings of an async tool, which only starts its work: the result comes later, from outside."""

    seconds: float | UnsetType | None = UNSET
    """How long the work may take; None: without limit. Not given: as in the config, or a day."""
    estimated_seconds: float | None = None
    validate: Validate | None = None
    who: str = ""
    """Who its calls ask, unless a call names another."""
    approval: bool = False
    """Whether it asks for a decision; after a crash that lost its question, a default one is asked."""


class Tool(Generic[A]):
    """A tool; its schema comes from the type of its arguments, whose docstring is the default description."""

    def __init__(  # noqa: PLR0913  all that describes a tool
        self,
        name: str,
        args: type[A],
        run: Execute[A],
        *,
        plan: Plan[A] | None = None,
        effect: Effect = "once",
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        reconcile: Reconcile[A] | None = None,
        description: str = "",
        parameters: dict[str, Any] | None = None,
        spec: AsyncSpec | None = None,
    ) -> None:
        """`parameters`: a JSON schema from elsewhere; the arguments are then a plain dict."""
        self.name = name
        self.args = args
        self.run = run
        self.plan = plan
        self.effect: Effect = effect
        self.timeout = timeout
        self.reconcile = reconcile
        self.parameters = parameters
        self.async_spec = spec
        self.description = description or (self.args.__doc__ or name).strip()

    def with_plan(self, plan: Plan[A]) -> "Tool[A]":
        """Return a copy with another plan."""
        tool = copy(self)
        tool.plan = plan
        return tool

    def with_name(self, name: str) -> "Tool[A]":
        """Return a copy with another name."""
        tool = copy(self)
        tool.name = name
        return tool

    def spec(self) -> ToolSpec:
        """Return the spec; its schema has no references, which some providers do not follow.

        Where a type contains itself, `inline_references` says what is kept.
        """
        if self.parameters is not None:
            return self._spec(self.parameters)
        schema = schema_of_type(self.args)
        return self._spec(
            {key: value for key, value in schema.items() if key not in ("title", "description")}
        )

    def _spec(self, parameters: dict[str, Any]) -> ToolSpec:
        tokens = estimate_text(self.description) + len(msgspec.json.encode(parameters)) // BYTES_A_TOKEN
        return ToolSpec(self.name, self.description, parameters, tokens)


AnyTool: TypeAlias = Tool[Any]


class Policy(Protocol):
    """Decides an ask: go on, refuse, or let a person decide."""

    def __call__(self, ask: Ask, context: ToolContext) -> Literal["allow", "deny", "ask"]: ...


def ask_everything(ask: Ask, context: ToolContext) -> Literal["allow", "deny", "ask"]:
    """Leave every ask to a person."""
    return "ask"


def check_tools(tools: Sequence[AnyTool]) -> None:
    """Raise `InvalidInput` for objects that are not tools and for duplicate names."""
    for tool in tools:
        if not isinstance(tool, Tool):  # type hints are not enforced
            raise InvalidInput(f"{tool!r} is not a tool: put @tool above the function, or make a Tool")
    names = [tool.name for tool in tools]
    if len(names) != len(set(names)):
        raise InvalidInput(f"two tools have the same name; the names are {', '.join(sorted(names))}")
