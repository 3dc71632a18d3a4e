"""Messages of the Agent Client Protocol, as far as a client needs them; other fields are ignored."""

from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

PROTOCOL_VERSION = 1
JsonObject: TypeAlias = dict[str, Any]


class PromptCapabilities(Struct, frozen=True, rename="camel"):
    image: bool = False
    embedded_context: bool = False


class SessionCapabilities(Struct, frozen=True, rename="camel"):
    resume: JsonObject | None = None


class AgentCapabilities(Struct, frozen=True, rename="camel"):
    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()

    @property
    def resumes(self) -> bool:
        return self.session_capabilities.resume is not None


class Implementation(Struct, frozen=True):
    name: str = ""
    version: str = ""


class InitializeResponse(Struct, frozen=True, rename="camel"):
    protocol_version: int
    agent_capabilities: AgentCapabilities = AgentCapabilities()
    agent_info: Implementation | None = None


class NewSessionResponse(Struct, frozen=True, rename="camel"):
    session_id: str


class PromptUsage(Struct, frozen=True, rename="camel"):
    """Tokens of one prompt."""

    input_tokens: int = 0
    output_tokens: int = 0
    thought_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    total_tokens: int | None = None


class PromptResponse(Struct, frozen=True, rename="camel"):
    stop_reason: str
    usage: PromptUsage | None = None


class Cost(Struct, frozen=True):
    amount: float
    currency: str = "USD"


class PlanEntry(Struct, frozen=True):
    content: str
    priority: str = "medium"
    status: str = "pending"


class Update(Struct, frozen=True, rename="camel"):
    """The fields of all kinds of updates; each kind has some of them."""

    session_update: str
    content: Any = None
    message_id: str | None = None
    tool_call_id: str = ""
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    locations: list[Any] | None = None
    raw_input: Any = None
    raw_output: Any = None
    entries: list[PlanEntry] = []
    cost: Cost | None = None
    meta: Any = field(default=None, name="_meta")


class SessionNotification(Struct, frozen=True, rename="camel"):
    session_id: str
    update: Update


class ToolCallFields(Struct, frozen=True, rename="camel"):
    """A call as a permission request shows it."""

    tool_call_id: str
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    content: Any = None
    locations: list[Any] | None = None
    raw_input: Any = None
    raw_output: Any = None


class PermissionOption(Struct, frozen=True, rename="camel"):
    option_id: str
    kind: str
    name: str = ""


class PermissionParams(Struct, frozen=True, rename="camel"):
    session_id: str
    tool_call: ToolCallFields
    options: list[PermissionOption]


StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]


def initialize_params(version: str) -> JsonObject:
    """Return the parameters of `initialize`: neither files nor terminals of ours are offered."""
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
        "clientInfo": {"name": "asyncagents", "version": version},
    }


def selected_outcome(option_id: str) -> JsonObject:
    return {"outcome": {"outcome": "selected", "optionId": option_id}}


CANCELLED_OUTCOME: JsonObject = {"outcome": {"outcome": "cancelled"}}
