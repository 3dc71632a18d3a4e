"""The output that each hook may change, with OpenCode's names where it has them."""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from asyncagents.domain.agent.permission import Action
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.part import AgentPart, FilePart, Part, SubtaskPart, TextPart
from asyncagents.domain.shape import wire_name

NonNegative = Annotated[float, Meta(ge=0)]


class MessageHeader(Struct, frozen=True, rename=wire_name):
    agent: str | None
    model: ModelRef | None


class MessageOutput(Struct, frozen=True):
    message: MessageHeader
    parts: list[dict[str, Any]]


class ParamsOutput(Struct, frozen=True, kw_only=True, rename=wire_name):
    temperature: NonNegative | None = None
    top_p: NonNegative | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    options: dict[str, Any] = {}
    """Extra fields of the provider's request body."""


class SystemOutput(Struct, frozen=True):
    system: list[str]


class TextOutput(Struct, frozen=True):
    text: str


class PermissionOutput(Struct, frozen=True):
    status: Action


class BeforeOutput(Struct, frozen=True):
    args: dict[str, Any]


class AfterOutput(Struct, frozen=True):
    title: str
    output: str
    metadata: dict[str, Any]


class EnvOutput(Struct, frozen=True):
    env: dict[
        Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], Annotated[str, Meta(pattern=r"^[^\x00]*$")]
    ]


class CompactingOutput(Struct, frozen=True):
    context: list[str]
    prompt: str | None


class CommandOutput(Struct, frozen=True):
    parts: list[dict[str, Any]]


_PROMPT = AgentPart | FilePart | SubtaskPart | TextPart
NEW_PART_IDS = {"id": "prt_new", "sessionID": "", "messageID": ""}
"""Placeholder ids of a part that a hook adds; it gets its own when it is admitted."""


def encode_parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    return [msgspec.to_builtins(part) for part in parts]


def read_parts(plain: Iterable[dict[str, Any]]) -> tuple[Part, ...]:
    """Decode parts. Raises `ValidationError` for other types of parts, or if there is no text."""
    parts: tuple[Part, ...] = msgspec.convert([NEW_PART_IDS | part for part in plain], tuple[_PROMPT, ...])
    if not any(part.text.strip() if isinstance(part, TextPart) else True for part in parts):
        raise msgspec.ValidationError("a prompt needs some text")
    return parts
