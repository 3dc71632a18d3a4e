"""The workplace of a directory: tools, agents, rules and settings for its sessions."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.agent.agent import Agent
from asyncagents.domain.agent.backend import AcpBackend
from asyncagents.domain.agent.permission import LineageRules
from asyncagents.domain.call.call import Effect, Failed
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import Rule, Session
from asyncagents.domain.step import StepInfo
from asyncagents.domain.task.notice import NoticeFormat
from asyncagents.domain.window import estimate_text
from asyncagents.engine.tool import AnyTool, Policy, ask_everything
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.engine.workplace.hooks import NO_HOOKS, Hooks
from asyncagents.engine.workplace.mcp import McpControl, McpResources
from asyncagents.engine.workplace.prompt_sources import PromptSources
from asyncagents.engine.workplace.session_servers import TreeServers
from asyncagents.engine.workplace.snapshots import NO_SNAPSHOTS, NoSnapshots, Snapshots
from asyncagents.errors import ConfigError, InvalidInput
from asyncagents.llm.model import ChatRequest, Options, ToolSpec

Silence: TypeAlias = Literal["park", "deny", "fail"]
NO_ANSWER_POSSIBLE = "Nobody can answer whether this is allowed, so it was not done. Go on without it."
TOO_LATE = "Nobody answered in time whether this is allowed, so it was not done. Go on without it."


class AskPolicy(Struct, frozen=True, kw_only=True):
    """What happens to an ask without an answer."""

    silence: Silence = "park"
    """Wait; deny and let the model go on; or deny and end the turn."""
    seconds: float | None = None
    """How long to wait before that, unless it parks; None: not at all."""
    rejected_goes_on: bool = False
    """Whether the turn goes on after a rejection without a message."""

    @property
    def refusal(self) -> Failed | None:
        """The immediate refusal of an ask, if it must not wait."""
        if self.silence == "park" or self.seconds:
            return None
        return Failed(NO_ANSWER_POSSIBLE, blocks=self.silence == "fail")


class CompactionPolicy(Struct, frozen=True, kw_only=True):
    """How a long conversation is compacted."""

    auto: bool = True
    """Whether it is summarised when it is too long for the model."""
    prune: bool = True
    """Whether old output of tools is pruned."""
    reserved: int | None = None
    """Tokens of the window to keep free; None: as many as the model may write."""
    recent: int | None = None
    """Tokens of the tail."""
    turns: int | None = None
    """How many prompts back the tail reaches at most."""


class Brief(Struct, frozen=True, kw_only=True):
    """What an agent's request holds besides the messages."""

    system: str = ""
    specs: tuple[ToolSpec, ...] = ()
    options: Options = Options()
    steps: int | None = None
    """How many steps may follow a prompt; None: no limit."""
    tool_choice: str | None = None
    """As in a `ChatRequest`."""

    weight: int | None = None
    """Its tokens, if they were computed before."""

    def with_system(self, system: str) -> "Brief":
        """Return a copy with a text appended to its system prompt."""
        if not system:
            return self
        return replace(self, system="\n\n".join(filter(None, (self.system, system))), weight=None)

    @property
    def tokens(self) -> int:
        """Estimated tokens of the system prompt and the tools."""
        if self.weight is not None:
            return self.weight
        return estimate_text(self.system) + sum(spec.tokens for spec in self.specs)


class Workplace(Protocol):
    """What a directory offers to its sessions. Methods raise `InvalidInput` for an unknown agent."""

    @property
    def tools(self) -> Mapping[str, AnyTool]: ...

    @property
    def effects(self) -> Mapping[str, Effect]: ...

    @property
    def ask_policy(self) -> AskPolicy: ...

    @property
    def reminds(self) -> bool: ...

    @property
    def hooks(self) -> Hooks: ...

    @property
    def worktree(self) -> str:
        """Root of the project; empty: the directory itself."""
        ...

    @property
    def nudges(self) -> int:
        """How often an agent that stops with open todos is reminded to go on."""
        ...

    @property
    def subagents(self) -> Mapping[str, Agent] | None:
        """Agents that can be given a task, by name; None: any name is accepted."""
        ...

    def backend(self, agent: str) -> AcpBackend | None:
        """Return the external agent that works for an agent; None: a model does, or the agent is unknown."""
        ...

    @property
    def notice_format(self) -> NoticeFormat:
        """The format of notices."""
        ...

    @property
    def mcp_resources(self) -> McpResources | None:
        """Resources and prompts of MCP servers; None: there are no servers."""
        ...

    @property
    def snapshots(self) -> Snapshots | NoSnapshots:
        """Snapshots of the project's files."""
        ...

    def rules(self, agent: str, session: Session) -> LineageRules | None:
        """Return an agent's own rules in a session; None: there is a policy and no rules."""
        ...

    def brief(self, agent: str, rules: LineageRules | None) -> Brief: ...

    def policy(self, agent: str, rules: LineageRules | None, approved: Sequence[Rule]) -> Policy:
        """Return the policy by the effective rules and the approvals."""
        ...

    def default_agent(self) -> str | None:
        """Return the agent of prompts that name none; None: the runtime's default."""
        ...

    def reminders(self, stepping: StepInfo) -> tuple[str, ...]: ...

    @property
    def default_model(self) -> ModelRef | None:
        """The first model of a session that names none; None: the runtime's default."""
        ...

    def model(self, agent: str) -> ModelRef | None:
        """Return the agent's own model; None: the session's."""
        ...

    @property
    def compaction_policy(self) -> CompactionPolicy: ...

    def summary_request(self, model: ModelRef) -> ChatRequest:
        """Return the request for a summary, without messages. `model`: the session's model."""
        ...

    def title_request(self, model: ModelRef) -> ChatRequest | None:
        """Return the request for a title, without messages; None: no titles. `model`: the session's model."""
        ...

    @property
    def prompt_sources(self) -> PromptSources | None:
        """Sources of prompts (files, commands, agents); None: prompts are admitted unchanged."""
        ...


class Workplaces(Protocol):
    @property
    def mcp_control(self) -> McpControl | None:
        """Control of MCP servers; None: there can be none."""
        ...

    @property
    def is_fixed(self) -> bool:
        """Whether all directories have the same workplace, without agents and rules."""
        ...

    @property
    def has_hooks(self) -> bool:
        """Whether plugins may have hooks, with or without files."""
        ...

    async def at(
        self, directory: str, *, working: bool = False, tree: TreeServers | None = None
    ) -> Workplace:
        """Return the workplace by the directory's current files; raise `ConfigError` if they are invalid.
        `working`: wait, up to a limit, for what takes time to start, such as an MCP server. `tree`: servers
        that a tree of sessions has besides those of the directory."""
        ...

    @property
    def known_directories(self) -> tuple[str, ...]:
        """Directories with a cached workplace."""
        ...

    def forget(self, directory: str) -> None:
        """Drop a directory's cached workplace: its files are read again on the next use."""
        ...


class FixedWorkplace:
    """The same tools and one policy for every directory and every agent."""

    reminds = False
    nudges = 0
    is_fixed = True
    has_hooks = False
    known_directories: tuple[str, ...] = ()
    mcp_control: McpControl | None = None
    compaction_policy = CompactionPolicy()
    mcp_resources: McpResources | None = None
    prompt_sources: PromptSources | None = None
    subagents: Mapping[str, Agent] | None = None
    hooks: Hooks = NO_HOOKS
    worktree = ""
    default_model: ModelRef | None = None
    snapshots: Snapshots | NoSnapshots = NO_SNAPSHOTS

    def __init__(
        self,
        tools: Sequence[AnyTool],
        policy: Policy,
        asking: AskPolicy | None = None,
        *,
        reader: str | None = None,
        backends: Mapping[str, AcpBackend] = {},
    ) -> None:
        """`reader`: the tool that reads results of tasks, for notices. `backends`: by agent."""
        self._backends = backends
        self.tools: Mapping[str, AnyTool] = {tool.name: tool for tool in tools}
        self.effects: Mapping[str, Effect] = {tool.name: tool.effect for tool in tools}
        self.ask_policy = asking or AskPolicy()
        self.notice_format = NoticeFormat(tool=reader)
        self._policy = policy
        self._brief = Brief(specs=tuple(tool.spec() for tool in tools))

    async def at(
        self, directory: str, *, working: bool = False, tree: TreeServers | None = None
    ) -> Workplace:
        return self

    def forget(self, directory: str) -> None:
        """Do nothing: there are no files."""

    def rules(self, agent: str, session: Session) -> LineageRules | None:
        return None

    def brief(self, agent: str, rules: LineageRules | None) -> Brief:
        return self._brief

    def policy(self, agent: str, rules: LineageRules | None, approved: Sequence[Rule]) -> Policy:
        return self._policy

    def default_agent(self) -> str | None:
        return None

    def backend(self, agent: str) -> AcpBackend | None:
        return self._backends.get(agent)

    def reminders(self, stepping: StepInfo) -> tuple[str, ...]:
        return ()

    def model(self, agent: str) -> ModelRef | None:
        return None

    def summary_request(self, model: ModelRef) -> ChatRequest:
        return ChatRequest(model=model, messages=(), system=prompt_text("compaction"))

    def title_request(self, model: ModelRef) -> ChatRequest | None:
        return None


class UnusableWorkplace(FixedWorkplace):
    """The workplace of a directory whose config is invalid: no session works there until it is fixed."""

    def __init__(self, why: str) -> None:
        super().__init__((), ask_everything)
        self.why = why

    def brief(self, agent: str, rules: LineageRules | None) -> Brief:
        raise InvalidInput(self.why)


async def workplace_at(
    workplaces: Workplaces, directory: str, *, working: bool = False, tree: TreeServers | None = None
) -> Workplace:
    """Return the workplace of `directory`; if its config is invalid, an `UnusableWorkplace`."""
    try:
        return await workplaces.at(directory, working=working, tree=tree)
    except ConfigError as error:
        return UnusableWorkplace(str(error))
