"""The output that each hook may change, with OpenCode's names where it has them."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from asyncagents.domain.message import ModelRef
from asyncagents.domain.permission import Action
from asyncagents.domain.shape import wire_name

NonNegative = Annotated[float, Meta(ge=0)]


class Sent(Struct, frozen=True, rename=wire_name):
    agent: str | None
    model: ModelRef | None


class MessageOutput(Struct, frozen=True):
    message: Sent
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
