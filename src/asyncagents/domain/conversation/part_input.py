"""Parts of a prompt as clients send them, without session and message ids."""

from typing import Any, TypeAlias, assert_never

from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part import (
    AgentPart,
    FilePart,
    Part,
    PartSource,
    PartTime,
    SubtaskPart,
    TextPart,
    TextSpan,
)
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.domain.shape import Shape


class TextInput(Shape, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """A text in a prompt."""

    text: str
    id: PartId | None = None
    synthetic: bool | None = None
    ignored: bool | None = None
    time: PartTime | None = None
    metadata: dict[str, Any] | None = None


class FileInput(Shape, frozen=True, kw_only=True, tag_field="type", tag="file"):
    """A file in a prompt.

    `url` is a `file:`, `data:` or `https:` URL; a `file:` one may name lines, as in `?start=3&end=9`.
    """

    mime: str
    url: str
    id: PartId | None = None
    filename: str | None = None
    source: PartSource | None = None


class AgentInput(Shape, frozen=True, kw_only=True, tag_field="type", tag="agent"):
    """A mention of an agent in a prompt."""

    name: str
    id: PartId | None = None
    source: TextSpan | None = None


class SubtaskInput(Shape, frozen=True, kw_only=True, tag_field="type", tag="subtask"):
    """A task in a prompt: `agent` works on `prompt`."""

    prompt: str
    description: str
    agent: str
    id: PartId | None = None
    model: ModelRef | None = None
    command: str | None = None


PartInput: TypeAlias = TextInput | FileInput | AgentInput | SubtaskInput


def build_part(part: PartInput, part_id: PartId, *, session_id: SessionId, message_id: MessageId) -> Part:
    """Build the stored part of a prompt."""
    where: dict[str, Any] = {"id": part_id, "session_id": session_id, "message_id": message_id}
    fields = {name: getattr(part, name) for name in part.__struct_fields__ if name != "id"}
    match part:
        case TextInput():
            return TextPart(**where, **fields)
        case FileInput():
            return FilePart(**where, **fields)
        case AgentInput():
            return AgentPart(**where, **fields)
        case SubtaskInput():
            return SubtaskPart(**where, **fields)
        case _:
            assert_never(part)
