"""The shape of configuration files; files are checked against it, and the schema is built from it.

The names are OpenCode's. These classes are never instantiated; `config/config.py` has the resulting values.
"""

from enum import Enum, auto
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from asyncagents.config.config import Action

MARK = "mark"


class Mark(Enum):
    """A property of a key besides its type."""

    OURS = auto()
    """OpenCode refuses the key."""
    OLD = auto()
    """The key has a newer form."""
    INERT = auto()
    """The key is OpenCode's and has no effect here."""


Text: TypeAlias = str | UnsetType
Flag: TypeAlias = bool | UnsetType
Texts: TypeAlias = list[str] | UnsetType
TextMap: TypeAlias = dict[str, str] | UnsetType
Anything: TypeAlias = dict[str, Any] | UnsetType
Inert: TypeAlias = Annotated[
    Any, Meta(description="OpenCode's; it changes nothing in asyncagents.", extra={MARK: Mark.INERT})
]
Count: TypeAlias = Annotated[int, Meta(ge=0)] | UnsetType
Milliseconds: TypeAlias = Annotated[int, Meta(ge=1)] | bool | UnsetType
AnswerTimeout: TypeAlias = Annotated[
    Milliseconds,
    Meta(description="How many milliseconds an answer may take to begin, or false for no limit."),
]
ChunkTimeout: TypeAlias = Annotated[
    Milliseconds, Meta(description="How many milliseconds a stream may be silent, or false for no limit.")
]
MOST_DOLLARS = 1_000_000
"""A larger price is a typing error that would spoil every sum of costs."""
Dollars: TypeAlias = Annotated[float, Meta(ge=0, le=MOST_DOLLARS)] | UnsetType
ModelName: TypeAlias = Annotated[str, Meta(description="As provider/model.")] | UnsetType
Rules: TypeAlias = Action | dict[str, Action | dict[str, Action]]
"""`"ask"`, `{"bash": "ask"}` or `{"bash": {"git *": "allow"}}`."""


class LimitEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    """Limits in tokens."""

    context: Count = UNSET
    input: Count = UNSET
    output: Count = UNSET


class PriceEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    input: Dollars = UNSET
    output: Dollars = UNSET
    cache_read: Dollars = UNSET
    cache_write: Dollars = UNSET


class CostEntry(PriceEntry, kw_only=True, forbid_unknown_fields=True):
    """US dollars per million tokens."""

    context_over_200k: PriceEntry | UnsetType = UNSET


class ModelOptions(Struct, kw_only=True):
    """Other keys are sent with each request."""

    timeout: AnswerTimeout = UNSET
    chunk_timeout: ChunkTimeout = field(name="chunkTimeout", default=UNSET)


class ModelEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    id: Annotated[Text, Meta(description="The provider's own name of the model, if it is not the key.")] = (
        UNSET
    )
    name: Text = UNSET
    limit: LimitEntry | UnsetType = UNSET
    cost: CostEntry | UnsetType = UNSET
    attachment: Flag = UNSET
    reasoning: Flag = UNSET
    tool_call: Flag = UNSET
    temperature: Flag = UNSET
    options: ModelOptions | UnsetType = UNSET
    headers: TextMap = UNSET
    variants: Annotated[
        dict[str, dict[str, Any]] | UnsetType,
        Meta(description="Named sets of options; a prompt or an agent may choose one."),
    ] = UNSET
    experimental: Inert = UNSET
    family: Inert = UNSET
    interleaved: Inert = UNSET
    modalities: Inert = UNSET
    provider: Inert = UNSET
    release_date: Inert = UNSET
    status: Inert = UNSET


class ProviderOptions(Struct, kw_only=True):
    """Other keys are passed to the provider's adapter."""

    base_url: Annotated[Text, Meta(description="The base URL of the provider.")] = field(
        name="baseURL", default=UNSET
    )
    api_key: Annotated[Text, Meta(description="Best as {env:NAME} or {file:path}.")] = field(
        name="apiKey", default=UNSET
    )
    headers: TextMap = UNSET
    timeout: AnswerTimeout = UNSET
    chunk_timeout: ChunkTimeout = field(name="chunkTimeout", default=UNSET)
    header_timeout: Milliseconds = field(name="headerTimeout", default=UNSET)
    set_cache_key: Flag = field(name="setCacheKey", default=UNSET)
    enterprise_url: Text = field(name="enterpriseUrl", default=UNSET)


class ProviderEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    npm: Annotated[
        Text, Meta(description="The package that determines the wire, e.g. @ai-sdk/openai-compatible.")
    ] = UNSET
    name: Text = UNSET
    api: Annotated[Text, Meta(description="The same as options.baseURL, which wins.")] = UNSET
    env: Annotated[Texts, Meta(description="Variables that may hold the key.")] = UNSET
    options: ProviderOptions | UnsetType = UNSET
    models: dict[str, ModelEntry] | UnsetType = UNSET
    whitelist: Texts = UNSET
    blacklist: Texts = UNSET
    concurrency: (
        Annotated[
            int,
            Meta(ge=1, description="Requests open at once, for each of its models.", extra={MARK: Mark.OURS}),
        ]
        | UnsetType
    ) = UNSET
    id: Inert = UNSET


class SandboxEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    write: Annotated[
        Texts,
        Meta(description="Paths that commands may write besides the project and a temporary folder."),
    ] = UNSET
    network: Annotated[
        Flag, Meta(description="Whether there is a network; if not given, as the rules for webfetch say.")
    ] = UNSET


class BackendEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    acp: Annotated[
        list[str], Meta(description="A command that speaks the Agent Client Protocol.", min_length=1)
    ]
    environment: Annotated[
        Texts, Meta(description="Names of variables that the program gets besides the usual ones.")
    ] = UNSET


class AgentEntry(Struct, kw_only=True):
    """Other keys are passed to the model as options."""

    description: Text = UNSET
    mode: Literal["primary", "subagent", "all"] | UnsetType = UNSET
    model: ModelName = UNSET
    variant: Text = UNSET
    temperature: float | UnsetType = UNSET
    top_p: float | UnsetType = UNSET
    steps: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    max_steps: (
        Annotated[int, Meta(ge=1, description="The old name of steps.", extra={MARK: Mark.OLD})] | UnsetType
    ) = field(name="maxSteps", default=UNSET)
    prompt: Text = UNSET
    hidden: Flag = UNSET
    disable: Flag = UNSET
    tools: Annotated[
        dict[str, bool] | UnsetType, Meta(description="The old form of permission.", extra={MARK: Mark.OLD})
    ] = UNSET
    permission: Rules | UnsetType = UNSET
    sandbox: Annotated[
        bool | SandboxEntry | UnsetType, Meta(description="Whether its commands run in a sandbox of bwrap.")
    ] = UNSET
    backend: Annotated[
        BackendEntry | UnsetType,
        Meta(description="The external agent that works instead of a model.", extra={MARK: Mark.OURS}),
    ] = UNSET
    options: Anything = UNSET
    color: Inert = UNSET


class CommandEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    """A slash command and its prompt."""

    template: Text = UNSET
    description: Text = UNSET
    agent: Text = UNSET
    model: ModelName = UNSET
    variant: Text = UNSET
    subtask: Flag = UNSET


class McpEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    type: Literal["local", "remote"] | UnsetType = UNSET
    command: Annotated[Texts, Meta(description="The program of a local server and its arguments.")] = UNSET
    cwd: Text = UNSET
    environment: TextMap = UNSET
    url: Annotated[Text, Meta(description="The URL of a remote server.")] = UNSET
    headers: TextMap = UNSET
    enabled: Flag = UNSET
    timeout: Annotated[int, Meta(ge=1, description="Milliseconds.")] | UnsetType = UNSET
    oauth: Inert = UNSET


class CompactionEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    auto: Annotated[Flag, Meta(description="Summarise the conversation when the context is full.")] = UNSET
    prune: Annotated[Flag, Meta(description="Leave old tool output out of requests.")] = UNSET
    reserved: Annotated[
        Count, Meta(description="Tokens of the context that stay free, instead of what the model may write.")
    ] = UNSET
    tail_turns: Annotated[Count, Meta(description="How many prompts back the kept messages reach.")] = UNSET
    preserve_recent_tokens: Annotated[
        Count, Meta(description="Tokens of the newest messages that a summary leaves as they are.")
    ] = UNSET


class DelegationEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    tools: Annotated[
        Literal["asyncagents", "async_task", "both", "none"] | UnsetType,
        Meta(description="The tools for background tasks that a model sees, besides task (both)."),
    ] = UNSET
    depth: Annotated[
        Annotated[int, Meta(ge=0, le=100)] | UnsetType, Meta(description="How deep agents may delegate.")
    ] = UNSET
    concurrent: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | UnsetType,
        Meta(description="How many sessions below one root may work at once; the others queue."),
    ] = UNSET
    spawns: Annotated[
        Annotated[int, Meta(ge=0, le=1_000_000)] | UnsetType,
        Meta(description="How many tasks one session may launch."),
    ] = UNSET
    seconds: Annotated[
        Annotated[float, Meta(gt=0, le=31_536_000)] | UnsetType | None,
        Meta(description="How long a task may take before it is ended; null: no limit."),
    ] = UNSET


class ExternalEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    concurrent: Annotated[
        Annotated[int, Meta(ge=1, le=1_000)] | UnsetType,
        Meta(description="How many programs of external agents run at once; further steps queue."),
    ] = UNSET


class NoticesEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    inline_result: Annotated[Flag, Meta(description="Whether a notice contains the task's result.")] = UNSET


class WebhooksEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    enabled: Annotated[Flag, Meta(description="Send a requested webhook when a call is settled.")] = UNSET
    hosts: Annotated[
        Texts, Meta(description="Hosts and addresses that may be posted to although they are not public.")
    ] = UNSET


class AsyncToolsEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[Text, Meta(description="The public URL of this server; results are posted below it.")] = (
        UNSET
    )
    seconds: Annotated[
        Annotated[float, Meta(gt=0, le=31_536_000)] | UnsetType,
        Meta(description="The deadline for a result, unless the tool or the call sets another."),
    ] = UNSET
    keep_days: Annotated[
        Annotated[float, Meta(gt=0, le=36_500)] | UnsetType,
        Meta(description="How long a settled call is kept."),
    ] = UNSET
    secrets: Annotated[
        Texts, Meta(description="Secrets of services that sign results with a secret of their own.")
    ] = UNSET
    webhooks: Annotated[
        WebhooksEntry | UnsetType, Meta(description="Outgoing webhooks for settled calls.")
    ] = UNSET


class TelemetryEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    enabled: Annotated[
        Flag, Meta(description="Record traces and metrics with the program's OpenTelemetry.")
    ] = UNSET
    content: Annotated[
        Flag, Meta(description="Whether texts of prompts, answers, arguments and results are included.")
    ] = UNSET


class AsksEntry(Struct, kw_only=True, forbid_unknown_fields=True):
    policy: Annotated[
        Literal["park", "deny", "fail"] | UnsetType,
        Meta(description="Wait for an answer; deny and let the model go on; or deny and end the turn."),
    ] = UNSET
    seconds: Annotated[
        Annotated[float, Meta(ge=0)] | UnsetType,
        Meta(description="How long an ask waits before deny or fail; not at all if not given."),
    ] = UNSET


class ConfigFile(Struct, kw_only=True, forbid_unknown_fields=True):
    """opencode.json, opencode.jsonc, asyncagents.json and asyncagents.jsonc."""

    schema: Inert = field(name="$schema", default=UNSET)
    model: ModelName = UNSET
    small_model: ModelName = UNSET
    default_agent: Text = UNSET
    provider: dict[str, ProviderEntry] | UnsetType = UNSET
    disabled_providers: Texts = UNSET
    enabled_providers: Texts = UNSET
    agent: dict[str, AgentEntry] | UnsetType = UNSET
    mode: Annotated[
        dict[str, AgentEntry] | UnsetType,
        Meta(description="The old form of an agent whose mode is primary.", extra={MARK: Mark.OLD}),
    ] = UNSET
    permission: Rules | UnsetType = UNSET
    sandbox: Annotated[
        bool | SandboxEntry | UnsetType,
        Meta(description="Whether commands run in a sandbox of bwrap, unless their agent says otherwise."),
    ] = UNSET
    asks: Annotated[
        AsksEntry | UnsetType, Meta(description="What happens to an ask that nobody answers.")
    ] = UNSET
    tools: Annotated[
        dict[str, bool] | UnsetType, Meta(description="The old form of permission.", extra={MARK: Mark.OLD})
    ] = UNSET
    command: dict[str, CommandEntry] | UnsetType = UNSET
    plugin: list[str | tuple[str, dict[str, Any]]] | UnsetType = UNSET
    mcp: dict[str, McpEntry] | UnsetType = UNSET
    instructions: Texts = UNSET
    compaction: CompactionEntry | UnsetType = UNSET
    delegation: Annotated[
        DelegationEntry | UnsetType, Meta(description="How much agents may delegate, and with which tools.")
    ] = UNSET
    external: Annotated[
        ExternalEntry | UnsetType,
        Meta(description="Limits of external agents, which have a backend.", extra={MARK: Mark.OURS}),
    ] = UNSET
    notices: Annotated[
        NoticesEntry | UnsetType,
        Meta(description="The notices that tell an agent that its tasks have ended."),
    ] = UNSET
    async_tools: Annotated[
        AsyncToolsEntry | UnsetType, Meta(description="Calls whose result arrives later, from outside.")
    ] = UNSET
    telemetry: Annotated[
        TelemetryEntry | UnsetType, Meta(description="Traces and metrics by OpenTelemetry.")
    ] = UNSET
    todo_enforcer: Annotated[
        bool | Annotated[int, Meta(ge=0, le=1000)] | UnsetType,
        Meta(description="How often an agent that stops with open todos is told to continue, at most."),
    ] = UNSET
    snapshot: Annotated[
        bool | UnsetType,
        Meta(description="Take snapshots of files before and after each step, so that it can be undone."),
    ] = UNSET
    hook_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=600)] | UnsetType,
        Meta(description="How long a plugin's hook may take before it is skipped."),
    ] = UNSET
    pass_environment: Annotated[
        Texts,
        Meta(
            description="Variables that commands and MCP servers get besides those that programs need: "
            "names, or patterns with *, which leave out what looks like a secret.",
            extra={MARK: Mark.OURS},
        ),
    ] = UNSET
    experimental: Anything = UNSET
    attachment: Inert = UNSET
    autoshare: Inert = UNSET
    autoupdate: Inert = UNSET
    enterprise: Inert = UNSET
    formatter: Inert = UNSET
    keybinds: Inert = UNSET
    layout: Inert = UNSET
    log_level: Inert = field(name="logLevel", default=UNSET)
    lsp: Inert = UNSET
    reference: Inert = UNSET
    references: Inert = UNSET
    server: Inert = UNSET
    share: Inert = UNSET
    shell: Inert = UNSET
    skills: Inert = UNSET
    subagent_depth: Inert = UNSET
    theme: Inert = UNSET
    tool_output: Inert = UNSET
    tui: Inert = UNSET
    username: Inert = UNSET
    watcher: Inert = UNSET
