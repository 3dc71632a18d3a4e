"""The messages of the Agent Client Protocol, version 1, as far as the agent side reads and writes them.

Field names are those of the protocol in camel case. `_meta` of the other side is never read.
"""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Struct, field

PROTOCOL_VERSION = 1
Meta: TypeAlias = dict[str, Any]
SessionIdText: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Incoming(Struct, frozen=True, kw_only=True, rename="camel"):
    """Parameters that a client sends; unknown fields are ignored."""


class ClientSessionCapabilities(Incoming, frozen=True, kw_only=True):
    compaction: dict[str, Any] | None = None
    notices: dict[str, Any] | None = None


class ElicitationCapabilities(Incoming, frozen=True, kw_only=True):
    form: dict[str, Any] | None = None


class ClientCapabilities(Incoming, frozen=True, kw_only=True):
    session: ClientSessionCapabilities | None = None
    subagents: dict[str, Any] | None = None
    elicitation: ElicitationCapabilities | None = None

    @property
    def shows_notices(self) -> bool:
        return self.session is not None and self.session.notices is not None

    @property
    def shows_compaction(self) -> bool:
        return self.session is not None and self.session.compaction is not None

    @property
    def shows_subagents(self) -> bool:
        return self.subagents is not None

    @property
    def shows_forms(self) -> bool:
        return self.elicitation is not None and self.elicitation.form is not None


class ClientInfo(Struct, frozen=True, kw_only=True):
    name: str
    version: str
    title: str | None = None


class InitializeParams(Incoming, frozen=True, kw_only=True):
    protocol_version: int
    client_capabilities: ClientCapabilities = ClientCapabilities()
    client_info: ClientInfo | None = None


class NamedValue(Incoming, frozen=True, kw_only=True):
    """An environment variable or a header."""

    name: str
    value: str


class McpServerParams(Incoming, frozen=True, kw_only=True):
    """An MCP server of a request; without a type, a program that is started."""

    name: str
    type: str = "stdio"
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[NamedValue, ...] = ()
    url: str | None = None
    headers: tuple[NamedValue, ...] = ()


class NewSessionParams(Incoming, frozen=True, kw_only=True):
    cwd: str
    mcp_servers: tuple[McpServerParams, ...] = ()


class ExistingSessionParams(Incoming, frozen=True, kw_only=True):
    """Parameters of `session/load` and `session/resume`."""

    session_id: SessionIdText
    cwd: str
    mcp_servers: tuple[McpServerParams, ...] | None = None
    """None: the session keeps those that it has."""


class SessionParams(Incoming, frozen=True, kw_only=True):
    """Parameters of `session/cancel`, `session/close` and `session/delete`."""

    session_id: SessionIdText


class ListSessionsParams(Incoming, frozen=True, kw_only=True):
    cwd: str | None = None
    cursor: str | None = None


class SetModeParams(Incoming, frozen=True, kw_only=True):
    session_id: str
    mode_id: str


class SetOptionParams(Incoming, frozen=True, kw_only=True):
    session_id: str
    config_id: str
    value: str | bool


class Content(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", omit_defaults=True):
    """A block of a prompt or of a message."""


class TextContent(Content, frozen=True, kw_only=True, tag="text"):
    text: str


class ImageContent(Content, frozen=True, kw_only=True, tag="image"):
    data: str
    mime_type: str
    uri: str | None = None


class AudioContent(Content, frozen=True, kw_only=True, tag="audio"):
    data: str
    mime_type: str


class ResourceLink(Content, frozen=True, kw_only=True, tag="resource_link"):
    uri: str
    name: str
    mime_type: str | None = None


class ResourceContents(Incoming, frozen=True, kw_only=True):
    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class EmbeddedResource(Content, frozen=True, kw_only=True, tag="resource"):
    resource: ResourceContents


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


class PromptParams(Incoming, frozen=True, kw_only=True):
    session_id: str
    prompt: tuple[ContentBlock, ...]


class Outgoing(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What we send."""


class Mode(Outgoing, frozen=True, kw_only=True):
    id: str
    name: str
    description: str | None = None


class ModeState(Outgoing, frozen=True, kw_only=True):
    current_mode_id: str
    available_modes: tuple[Mode, ...]


class OptionValue(Outgoing, frozen=True, kw_only=True):
    value: str
    name: str
    description: str | None = None


class ConfigOption(Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="select"):
    id: str
    name: str
    category: str
    current_value: str
    options: tuple[OptionValue, ...]


class SessionReply(Outgoing, frozen=True, kw_only=True):
    """The answer to `session/new`, `session/load` and `session/resume`."""

    session_id: str | None = None
    modes: ModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None


class SessionInfo(Outgoing, frozen=True, kw_only=True):
    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


class FileLocation(Outgoing, frozen=True, kw_only=True):
    path: str
    line: int | None = None


class ShownContent(Struct, frozen=True, kw_only=True, tag_field="type", tag="content"):
    content: TextContent


class DiffContent(
    Struct, frozen=True, kw_only=True, rename="camel", tag_field="type", tag="diff", omit_defaults=True
):
    path: str
    new_text: str
    old_text: str | None = None


ToolContent: TypeAlias = ShownContent | DiffContent


class ShownToolCall(Outgoing, frozen=True, kw_only=True):
    """What people see of a call; the same fields begin a call, change it, and ask about it."""

    tool_call_id: str
    title: str
    kind: str = ""
    status: str = ""
    content: tuple[ToolContent, ...] = ()
    locations: tuple[FileLocation, ...] = ()
    raw_input: Any = None
    raw_output: Any = None
    meta: Meta | None = field(name="_meta", default=None)


class ShownPlanEntry(Outgoing, frozen=True, kw_only=True):
    content: str
    priority: str
    status: str


class Command(Outgoing, frozen=True, kw_only=True):
    name: str
    description: str
    input: dict[str, str] | None = None


class OutgoingUpdate(
    Struct, frozen=True, kw_only=True, rename="camel", tag_field="sessionUpdate", omit_defaults=True
):
    """An update of a session."""


class UserChunk(OutgoingUpdate, frozen=True, kw_only=True, tag="user_message_chunk"):
    content: ContentBlock
    message_id: str


class AgentChunk(OutgoingUpdate, frozen=True, kw_only=True, tag="agent_message_chunk"):
    content: ContentBlock
    message_id: str


class ThoughtChunk(OutgoingUpdate, frozen=True, kw_only=True, tag="agent_thought_chunk"):
    content: ContentBlock
    message_id: str


class ToolCallBegin(ShownToolCall, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call"):
    pass


class ToolCallChange(
    ShownToolCall, frozen=True, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"
):
    pass


class PlanUpdate(OutgoingUpdate, frozen=True, kw_only=True, tag="plan"):
    entries: tuple[ShownPlanEntry, ...]


class CommandsUpdate(OutgoingUpdate, frozen=True, kw_only=True, tag="available_commands_update"):
    available_commands: tuple[Command, ...]


class ModeUpdate(OutgoingUpdate, frozen=True, kw_only=True, tag="current_mode_update"):
    current_mode_id: str


class OptionsUpdate(OutgoingUpdate, frozen=True, kw_only=True, tag="config_option_update"):
    config_options: tuple[ConfigOption, ...]


class InfoUpdate(OutgoingUpdate, frozen=True, kw_only=True, tag="session_info_update"):
    title: str | None = None
    updated_at: str | None = None
    meta: Meta | None = field(name="_meta", default=None)


class UsageCost(Outgoing, frozen=True, kw_only=True):
    amount: float
    currency: str


class UsageUpdate(OutgoingUpdate, frozen=True, kw_only=True, tag="usage_update"):
    used: int
    size: int
    cost: UsageCost | None = None


class NoticeUpdate(OutgoingUpdate, frozen=True, kw_only=True, tag="notice"):
    severity: str
    title: str
    description: str | None = None


class CompactionUpdate(OutgoingUpdate, frozen=True, kw_only=True, tag="compaction_update"):
    compaction_id: str
    status: str


class SubagentUpdate(OutgoingUpdate, frozen=True, kw_only=True, tag="subagent_update"):
    session_id: str
    title: str | None = None
    description: str | None = None
    state: dict[str, Any] | None = None
    capabilities: dict[str, Any] | None = None


AnyUpdate: TypeAlias = OutgoingUpdate | ToolCallBegin | ToolCallChange


class SessionUpdateParams(Struct, frozen=True):
    """An update and the session it is about: the parameters of `session/update`."""

    session_id: str = field(name="sessionId")
    update: Any = None


class OfferedOption(Outgoing, frozen=True, kw_only=True):
    option_id: str
    name: str
    kind: str


class PermissionOutcome(Incoming, frozen=True, kw_only=True):
    outcome: str
    option_id: str | None = None


class PermissionResult(Incoming, frozen=True, kw_only=True):
    outcome: PermissionOutcome


class FormReply(Incoming, frozen=True, kw_only=True):
    action: str
    content: dict[str, Any] | None = None
