"""Everything an operator can set, as one frozen value, with OpenCode's names where it has them."""

from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.config.untrusted import Untrusted
from asyncagents.domain.message import ModelRef
from asyncagents.errors import ConfigError

Action: TypeAlias = Literal["allow", "deny", "ask"]
YEAR = 31_536_000.0


class ModelLimit(Struct, frozen=True, kw_only=True):
    """In tokens."""

    context: int | None = None
    input: int | None = None
    output: int | None = None


class ModelCost(Struct, frozen=True, kw_only=True):
    """US dollars for a million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float | None = None
    cache_write: float | None = None
    context_over_200k: "ModelCost | None" = None
    """What counts instead for a request of more than 200,000 tokens."""


class ModelDeadlines(Struct, frozen=True, kw_only=True):
    """How long a model may take, in seconds; 0 is for ever, None as long as usual."""

    first_seconds: float | None = None
    """Until its answer begins."""
    idle_seconds: float | None = None
    """Between two signs of life after that."""


class ModelConfig(Struct, frozen=True, kw_only=True):
    id: str | None = None
    """The provider's own name of the model, if it is not the key."""
    name: str | None = None
    limit: ModelLimit = ModelLimit()
    cost: ModelCost | None = None
    attachment: bool | None = None
    reasoning: bool | None = None
    tool_call: bool | None = None
    temperature: bool | None = None
    options: dict[str, Any] = {}
    deadlines: ModelDeadlines = ModelDeadlines()
    """Goes before that of its provider."""
    headers: dict[str, str] = {}
    variants: dict[str, dict[str, Any]] = {}
    """Named sets of options; a prompt may choose one."""

    def __repr__(self) -> str:
        """Headers and options may hold a key."""
        return f"ModelConfig(id={self.id!r}, name={self.name!r}, …)"


class ProviderConfig(Struct, frozen=True, kw_only=True):
    npm: str | None = None
    """Which wire it speaks, by the package that speaks it elsewhere."""
    name: str | None = None
    base_url: str | None = None
    api_key: Secret | None = None
    env: tuple[str, ...] = ()
    """Variables that may hold the key."""
    key_required: bool = False
    """Without a key a request is known to fail."""
    headers: dict[str, str] = {}
    deadlines: ModelDeadlines = ModelDeadlines()
    concurrency: int | None = None
    """Requests open at once, for each model of this provider."""
    options: dict[str, Any] = {}
    """What else stood under `options`."""
    models: dict[str, ModelConfig] = {}
    whitelist: tuple[str, ...] = ()
    blacklist: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """URL, headers and options may hold a key too."""
        return f"ProviderConfig(npm={self.npm!r}, name={self.name!r}, models={list(self.models)}, …)"


class SandboxConfig(Struct, frozen=True, kw_only=True):
    """Where the commands of an agent run, if in a sandbox."""

    write: tuple[str, ...] | None = None
    """Paths that they may write besides the project and a temporary folder."""
    network: bool | None = None
    """None: as the rules for `webfetch` say."""

    def __post_init__(self) -> None:
        for path in self.write or ():
            if not (path == "~" or path.startswith(("/", "~/"))) or "\0" in path:
                wanted = "write is a list of paths that begin with / or ~/"
                raise ConfigError(f"sandbox: {path[:80]!r} cannot be made writable: {wanted}")


class AgentConfig(Struct, frozen=True, kw_only=True):
    description: str | None = None
    mode: Literal["primary", "subagent", "all"] | None = None
    model: ModelRef | None = None
    variant: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    steps: int | None = None
    prompt: str | None = None
    hidden: bool | None = None
    disable: bool | None = None
    tools: dict[str, bool] = {}
    """As it was written; `permission` already says the same."""
    permission: "Permission" = {}
    sandbox: SandboxConfig | bool | None = None
    """Whether its commands run in one; None: as those of all agents."""
    options: dict[str, Any] = {}


Permission: TypeAlias = dict[str, Action | dict[str, Action]]
"""In the order in which it was written: the last rule that matches wins."""


class CommandConfig(Struct, frozen=True, kw_only=True):
    template: str
    description: str | None = None
    agent: str | None = None
    model: ModelRef | None = None
    variant: str | None = None
    subtask: bool | None = None


class McpConfig(Struct, frozen=True, kw_only=True):
    type: Literal["local", "remote"]
    command: tuple[str, ...] = ()
    cwd: str | None = None
    environment: dict[str, str] = {}
    url: str | None = None
    headers: dict[str, str] = {}
    enabled: bool = True
    timeout_seconds: float | None = None

    def __repr__(self) -> str:
        """Everything else may hold a key."""
        return f"McpConfig(type={self.type!r}, enabled={self.enabled!r}, …)"


class CompactionConfig(Struct, frozen=True, kw_only=True):
    auto: bool = True
    prune: bool = True
    reserved: int | None = None
    tail_turns: int | None = None
    preserve_recent_tokens: int | None = None


NUDGES = 10
HOOK_SECONDS = 5.0


class AsksConfig(Struct, frozen=True, kw_only=True):
    """What becomes of an ask that nobody answers."""

    policy: Literal["park", "deny", "fail"] = "park"
    seconds: float | None = None


class DelegationConfig(Struct, frozen=True, kw_only=True):
    """How much may be delegated, and which tools a model sees for it besides `task`."""

    tools: Literal["asyncagents", "async_task", "both", "none"] = "both"
    depth: int = 3
    """How deep sessions may be nested below their root."""
    concurrent: int = 20
    """How many sessions below one root may work at once; the others queue."""
    spawns: int = 200
    """How many tasks one session may launch."""
    seconds: float | None = None
    """How long a task may take; None: as long as it wants."""

    def __post_init__(self) -> None:
        """With no place nobody would ever work, and what is longer than a clock counts cannot be stored."""
        if self.depth < 0 or self.spawns < 0 or self.concurrent < 1:
            raise ConfigError("delegation: depth and spawns are 0 or more, concurrent is 1 or more")
        if self.seconds is not None and not 0 < self.seconds <= YEAR:
            raise ConfigError("delegation: seconds is more than 0 and at most a year, or None")

    @property
    def reader(self) -> str | None:
        """The tool with which a model reads what a background task came to."""
        if self.tools == "none":
            return None
        return "async_task_result" if self.tools == "async_task" else "asyncagents_output"


class NoticesConfig(Struct, frozen=True, kw_only=True):
    inline_result: bool = False
    """Whether a notice brings what the task said."""


DAY = 24 * 3600.0


class WebhooksConfig(Struct, frozen=True, kw_only=True):
    """Whether others are told when a call is settled, and where they may be."""

    enabled: bool = False
    hosts: tuple[str, ...] = ()
    """Names and addresses that may be posted to though they are not public."""

    def __post_init__(self) -> None:
        for host in self.hosts:
            has_port = host.count(":") == 1 or "]:" in host
            if not host.strip() or has_port or any(mark in host for mark in "/*@% "):
                raise ConfigError(
                    f"async_tools: {host[:80]!r} is no host: webhooks.hosts has whole names and addresses, "
                    "without https://, port, path or *"
                )


class AsyncToolsConfig(Struct, frozen=True, kw_only=True):
    """Calls whose result comes later, from outside."""

    url: str | None = None
    """Where this server is reached from outside; results are posted below it."""
    seconds: float = DAY
    """How long a result is waited for, unless the tool or the call says otherwise."""
    keep_days: float = 30
    """How long a settled call can be asked for."""
    secrets: tuple[Secret, ...] = ()
    """What services sign with that choose their own secret; several while one takes the place of another."""
    webhooks: WebhooksConfig = WebhooksConfig()

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= YEAR:
            raise ConfigError("async_tools: seconds is more than 0 and at most a year")
        if not 0 < self.keep_days <= 36_500:
            raise ConfigError("async_tools: keep_days is more than 0 and at most 36500")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ConfigError("async_tools: url begins with https://, or http:// for a server of one's own")


class TelemetryConfig(Struct, frozen=True, kw_only=True):
    """Traces and metrics by OpenTelemetry, with whatever the program has set up for it."""

    enabled: bool = False
    content: bool = False
    """Whether texts of prompts, answers, arguments and results go along."""


class Config(Struct, frozen=True, kw_only=True):
    data_dir: Path
    model: ModelRef | None = None
    small_model: ModelRef | None = None
    default_agent: str | None = None
    provider: dict[str, ProviderConfig] = {}
    disabled_providers: tuple[str, ...] = ()
    enabled_providers: tuple[str, ...] = ()
    agent: dict[str, AgentConfig] = {}
    permission: Permission = {}
    sandbox: SandboxConfig | None = None
    """Of all agents that do not say otherwise; None: commands run outside any."""
    asks: AsksConfig = AsksConfig()
    command: dict[str, CommandConfig] = {}
    plugin: tuple[str, ...] = ()
    plugin_options: dict[str, dict[str, Any]] = {}
    """Of those plugins that were listed with options."""
    mcp: dict[str, McpConfig] = {}
    instructions: tuple[str, ...] = ()
    compaction: CompactionConfig = CompactionConfig()
    delegation: DelegationConfig = DelegationConfig()
    notices: NoticesConfig = NoticesConfig()
    async_tools: AsyncToolsConfig = AsyncToolsConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    todo_enforcer: int = NUDGES
    """How often an agent that stops with todos left is told to go on; 0: it is not."""
    snapshot: bool = True
    """Whether it is kept what files were like before and after each step, so that it can be undone."""
    hook_seconds: float = HOOK_SECONDS
    """How long a plugin's hook may take before it is passed over."""
    pass_environment: tuple[str, ...] = ()
    """Names and patterns of variables that the programs of agents get besides those they need."""
    experimental: dict[str, Any] = {}
    variables: tuple[str, ...] = ()
    """Every variable that a file refers to with `{env:…}`; a key may be in any of them."""
    included: dict[str, bool] = {}
    """Every file that a text is taken from with `{file:…}`, and whether that text is a secret."""
    untrusted: Untrusted = Untrusted()
    """What files of a project that is not trusted name, and what counts for nothing therefore."""
