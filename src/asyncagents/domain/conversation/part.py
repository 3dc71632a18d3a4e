"""Parts of a message, ordered by id, and the states of a tool part."""

from typing import Any, ClassVar, TypeAlias

import msgspec

from asyncagents.domain.conversation.failure import APIError
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import CallId, MessageId, PartId, SessionId
from asyncagents.domain.shape import RawValue, Shape


class PartTime(Shape, frozen=True, kw_only=True):
    """`compacted`: when a tool's output was pruned from what the model reads."""

    start: int
    end: int | None = None
    compacted: int | None = None


class RetryTime(Shape, frozen=True, kw_only=True):
    created: int


class TextSpan(Shape, frozen=True, kw_only=True):
    """A range of the user's text."""

    schema_name: ClassVar[str] = "Span"

    value: str
    start: int
    end: int


class Position(Shape, frozen=True, kw_only=True):
    line: int
    character: int


class Range(Shape, frozen=True, kw_only=True):
    start: Position
    end: Position


class FileSource(Shape, frozen=True, kw_only=True, tag_field="type", tag="file"):
    path: str
    text: TextSpan


class SymbolSource(Shape, frozen=True, kw_only=True, tag_field="type", tag="symbol"):
    path: str
    range: Range
    name: str
    kind: int
    text: TextSpan


class ResourceSource(Shape, frozen=True, kw_only=True, tag_field="type", tag="resource"):
    client_name: str
    uri: str
    text: TextSpan


PartSource: TypeAlias = FileSource | SymbolSource | ResourceSource


class PartHeader(Shape, frozen=True, kw_only=True):
    """The ids of a part: its own, its session's and its message's."""

    id: PartId
    session_id: SessionId
    message_id: MessageId


class TextPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """`synthetic`: from the runtime, for the model only; `ignored`: for people, not for the model."""

    text: str
    synthetic: bool | None = None
    ignored: bool | None = None
    time: PartTime | None = None
    metadata: dict[str, Any] | None = None


class ReasoningPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    text: str
    time: PartTime
    metadata: dict[str, Any] | None = None


class FilePart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="file"):
    mime: str
    url: str
    filename: str | None = None
    source: PartSource | None = None


class AgentPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="agent"):
    name: str
    source: TextSpan | None = None


class SubtaskPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="subtask"):
    prompt: str
    description: str
    agent: str
    model: ModelRef | None = None
    command: str | None = None


class CompactionPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="compaction"):
    auto: bool
    overflow: bool | None = None
    tail_start_id: MessageId | None = msgspec.field(default=None, name="tail_start_id")


class StepStartPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="step-start"):
    snapshot: str | None = None


class StepFinishPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="step-finish"):
    reason: str
    cost: float
    tokens: Tokens
    snapshot: str | None = None


class PatchPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="patch"):
    hash: str
    files: tuple[str, ...]


class SnapshotPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="snapshot"):
    snapshot: str


class RetryPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="retry"):
    attempt: int
    error: APIError
    time: RetryTime


class ToolPending(Shape, frozen=True, kw_only=True, tag_field="status", tag="pending"):
    """The model is still writing the call; `raw` is its input so far."""

    input: dict[str, Any]
    raw: str


class ToolRunning(Shape, frozen=True, kw_only=True, tag_field="status", tag="running"):
    input: dict[str, Any]
    time: PartTime
    title: str | None = None
    metadata: dict[str, Any] | None = None


class ToolCompleted(Shape, frozen=True, kw_only=True, tag_field="status", tag="completed"):
    input: dict[str, Any]
    output: str
    title: str
    metadata: dict[str, Any]
    time: PartTime
    attachments: tuple[FilePart, ...] | None = None


class ToolFailed(Shape, frozen=True, kw_only=True, tag_field="status", tag="error"):
    schema_name: ClassVar[str] = "ToolError"
    input: dict[str, Any]
    error: str
    time: PartTime
    metadata: dict[str, Any] | None = None


class ToolWaiting(Shape, frozen=True, kw_only=True, tag_field="status", tag="waiting_async"):
    """A pending call: its result comes later, from outside."""

    input: dict[str, Any]
    pending_id: CallId
    time: PartTime
    title: str | None = None
    output: str | None = None
    metadata: dict[str, Any] | None = None


ToolState: TypeAlias = ToolPending | ToolRunning | ToolCompleted | ToolFailed | ToolWaiting


class ToolPart(PartHeader, frozen=True, kw_only=True, tag_field="type", tag="tool"):
    """`call_id` is the provider's id of the call."""

    call_id: str
    tool: str
    state: ToolState
    metadata: dict[str, Any] | None = None


Part: TypeAlias = (
    TextPart
    | ReasoningPart
    | ToolPart
    | FilePart
    | AgentPart
    | SubtaskPart
    | CompactionPart
    | StepStartPart
    | StepFinishPart
    | PatchPart
    | SnapshotPart
    | RetryPart
)


class UnknownPart(RawValue):
    """A part of an unknown type or in an unknown state, kept as received."""

    __slots__ = ("id", "message_id", "session_id", "type")

    def __init__(
        self,
        raw: bytes,
        *,
        type: str,
        id: PartId | None,
        session_id: SessionId | None,
        message_id: MessageId | None,
    ) -> None:
        super().__init__(raw)
        self.type = type
        self.id = id
        self.session_id = session_id
        self.message_id = message_id
