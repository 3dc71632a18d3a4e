"""The configuration as one frozen value, with OpenCode's names where they exist."""

from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.config.untrusted_settings import UntrustedSettings
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.errors import ConfigError

Action: TypeAlias = Literal["allow", "deny", "ask"]
YEAR = 31_536_000.0


class ModelLimit(Struct, frozen=True, kw_only=True):
    """Limits of a model in tokens."""

    context: int | None = None
    input: int | None = None
    output: int | None = None


class ModelCost(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float | None = None
    cache_write: float | None = None
    context_over_200k: "ModelCost | None" = None
    """The prices of a request of more than 200,000 tokens."""


class ModelDeadlines(Struct, frozen=True, kw_only=True):
    """Timeouts of a model in seconds; 0 disables one, None means the default."""

    first_seconds: float | None = None
    """Until the answer begins."""
    idle_seconds: float | None = None
    """Between two chunks after that."""


class ModelConfig(Struct, frozen=True, kw_only=True):
    id: str | None = None
    """The provider's own name of the model, if it differs from the key."""
    name: str | None = None
    limit: ModelLimit = ModelLimit()
    cost: ModelCost | None = None
    attachment: bool | None = None
    reasoning: bool | None = None
    tool_call: bool | None = None
    temperature: bool | None = None
    options: dict[str, Any] = {}
    deadlines: ModelDeadlines = ModelDeadlines()
    """Overrides that of its provider."""
    headers: dict[str, str] = {}
    variants: dict[str, dict[str, Any]] = {}
    """Named sets of options; a prompt may choose one."""

    def __repr__(self) -> str:
        """Omit headers and options, which may hold a key."""
        return f"ModelConfig(id={self.id!r}, name={self.name!r}, …)"


class ProviderConfig(Struct, frozen=True, kw_only=True):
    npm: str | None = None
    """The npm package that OpenCode uses for it, which determines the wire."""
    name: str | None = None
    base_url: str | None = None
    api_key: Secret | None = None
    env: tuple[str, ...] = ()
    """Variables that may hold the key."""
    key_required: bool = False
    """Whether requests fail without a key."""
    headers: dict[str, str] = {}
    deadlines: ModelDeadlines = ModelDeadlines()
    concurrency: int | None = None
    """Requests open at once, for each model of this provider."""
    options: dict[str, Any] = {}
    """The other keys of `options`."""
    models: dict[str, ModelConfig] = {}
    whitelist: tuple[str, ...] = ()
    blacklist: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Omit URL, headers and options, which may hold a key."""
        return f"ProviderConfig(npm={self.npm!r}, name={self.name!r}, models={list(self.models)}, …)"


class SandboxConfig(Struct, frozen=True, kw_only=True):
    """The sandbox in which the commands of an agent run."""

    write: tuple[str, ...] | None = None
    """Paths that commands may write besides the project and a temporary folder."""
    network: bool | None = None
    """Whether commands have a network; None: by the rules for `webfetch`."""

    def __post_init__(self) -> None:
        for path in self.write or ():
            if not (path == "~" or path.startswith(("/", "~/"))) or "\0" in path:
                wanted = "write is a list of paths that begin with / or ~/"
                raise ConfigError(f"sandbox: {path[:80]!r} cannot be made writable: {wanted}")


class BackendConfig(Struct, frozen=True, kw_only=True):
    """The program that does the work of an agent instead of a model."""

    acp: tuple[str, ...] = ()
    """A command that speaks the Agent Client Protocol."""
    environment: tuple[str, ...] = ()
    """Names of further variables that the program gets, such as the one that holds its key."""

    def __post_init__(self) -> None:
        if not self.acp or not self.acp[0].strip() or any("\0" in word for word in self.acp):
            raise ConfigError('has no command in backend.acp: write it as a list, as in ["opencode", "acp"]')


class AgentConfig(Struct, frozen=True, kw_only=True):
    """Settings of one agent, as under `agent` in a configuration file; None: not set."""

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
    """As written; `permission` already includes it."""
    permission: "Permission" = {}
    sandbox: SandboxConfig | bool | None = None
    """Whether its commands run in a sandbox; None: as `Config.sandbox` says."""
    backend: BackendConfig | None = None
    """The external agent that does its work; None: a model does."""
    options: dict[str, Any] = {}

    def __post_init__(self) -> None:
        if self.backend is not None and self.mode not in (None, "subagent"):
            raise ConfigError(
                f"has a backend, so it works for other agents: its mode is subagent, not {self.mode}"
            )


Permission: TypeAlias = dict[str, Action | dict[str, Action]]
"""Rules in written order: the last one that matches wins."""


class CommandConfig(Struct, frozen=True, kw_only=True):
    """A slash command: the template of its prompt, and the agent and model that answer."""

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
        """Omit everything else, which may hold a key."""
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
    """What happens to an ask that no person answers.

    `park` leaves the ask open, `deny` refuses it, `fail` ends the turn. `seconds`: how long `deny` and `fail`
    wait first; None: not at all.
    """

    policy: Literal["park", "deny", "fail"] = "park"
    seconds: float | None = None


class DelegationConfig(Struct, frozen=True, kw_only=True):
    """Limits of delegation, and the tools for it besides `task`."""

    tools: Literal["asyncagents", "async_task", "both", "none"] = "both"
    depth: int = 3
    """The deepest nesting of sessions below their root."""
    concurrent: int = 20
    """How many sessions below one root may work at once; the others queue."""
    spawns: int = 200
    """How many tasks one session may launch."""
    seconds: float | None = None
    """The deadline of a task; None: no deadline."""

    def __post_init__(self) -> None:
        """Raise `ConfigError` for limits with which no session could run or no deadline could be stored."""
        if self.depth < 0 or self.spawns < 0 or self.concurrent < 1:
            raise ConfigError("delegation: depth and spawns are 0 or more, concurrent is 1 or more")
        if self.seconds is not None and not 0 < self.seconds <= YEAR:
            raise ConfigError("delegation: seconds is more than 0 and at most a year, or None")

    @property
    def reader(self) -> str | None:
        """The tool with which a model reads the result of a background task."""
        if self.tools == "none":
            return None
        return "async_task_result" if self.tools == "async_task" else "asyncagents_output"


class ExternalConfig(Struct, frozen=True, kw_only=True):
    """Limits of external agents."""

    concurrent: int = 4
    """How many of their programs run at once; further steps queue."""

    def __post_init__(self) -> None:
        if self.concurrent < 1:
            raise ConfigError("external: concurrent is 1 or more")


class NoticesConfig(Struct, frozen=True, kw_only=True):
    inline_result: bool = False
    """Whether a notice contains the task's result."""


DAY = 24 * 3600.0


class WebhooksConfig(Struct, frozen=True, kw_only=True):
    """Outgoing webhooks for settled calls, and the hosts that are allowed."""

    enabled: bool = False
    hosts: tuple[str, ...] = ()
    """Host names and addresses that may be posted to although they are not public."""

    def __post_init__(self) -> None:
        for host in self.hosts:
            has_port = host.count(":") == 1 or "]:" in host
            if not host.strip() or has_port or any(mark in host for mark in "/*@% "):
                raise ConfigError(
                    f"async_tools: {host[:80]!r} is not a host: webhooks.hosts takes whole names and "
                    "addresses, without https://, port, path or *"
                )


class AsyncToolsConfig(Struct, frozen=True, kw_only=True):
    """Settings of async tools, whose results arrive later, from outside."""

    url: str | None = None
    """The public URL of this server; results are posted below it."""
    seconds: float = DAY
    """The deadline for a result, unless the tool or the call sets another."""
    keep_days: float = 30
    """How long a settled call is kept."""
    secrets: tuple[Secret, ...] = ()
    """Secrets of services that sign with a secret of their own; several during a rotation."""
    webhooks: WebhooksConfig = WebhooksConfig()

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= YEAR:
            raise ConfigError("async_tools: seconds is more than 0 and at most a year")
        if not 0 < self.keep_days <= 36_500:
            raise ConfigError("async_tools: keep_days is more than 0 and at most 36500")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise ConfigError("async_tools: url begins with https://, or http:// for a server of one's own")


class TelemetryConfig(Struct, frozen=True, kw_only=True):
    """Traces and metrics through the OpenTelemetry SDK that the program has set up."""

    enabled: bool = False
    content: bool = False
    """Whether texts of prompts, answers, arguments and results are included."""


class Config(Struct, frozen=True, kw_only=True):
    """All settings of a runtime, as the configuration files and the environment give them."""

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
    """The sandbox of agents that do not set their own; None: commands run without a sandbox."""
    asks: AsksConfig = AsksConfig()
    command: dict[str, CommandConfig] = {}
    plugin: tuple[str, ...] = ()
    plugin_options: dict[str, dict[str, Any]] = {}
    """Options by plugin."""
    mcp: dict[str, McpConfig] = {}
    instructions: tuple[str, ...] = ()
    compaction: CompactionConfig = CompactionConfig()
    delegation: DelegationConfig = DelegationConfig()
    external: ExternalConfig = ExternalConfig()
    notices: NoticesConfig = NoticesConfig()
    async_tools: AsyncToolsConfig = AsyncToolsConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    todo_enforcer: int = NUDGES
    """How often an agent that stops with open todos is told to continue, at most."""
    snapshot: bool = True
    """Whether snapshots of files are taken before and after each step, so that it can be undone."""
    hook_seconds: float = HOOK_SECONDS
    """How long a plugin's hook may take before it is skipped."""
    pass_environment: tuple[str, ...] = ()
    """Names and patterns of further variables for the processes of agents."""
    experimental: dict[str, Any] = {}
    variables: tuple[str, ...] = ()
    """Every variable that a file refers to with `{env:…}`; each may hold a key."""
    included: dict[str, bool] = {}
    """Every file included with `{file:…}`, and whether its text is a secret."""
    untrusted: UntrustedSettings = UntrustedSettings()
    """What files of an untrusted project name; it is ignored."""
