"""The one door to a language model: a request goes in, a stream of events comes out."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from asyncagents.domain.failure import Failure
from asyncagents.domain.message import ModelRef
from asyncagents.domain.session import Tokens

Finish: TypeAlias = Literal["stop", "tool-calls", "length", "content-filter", "error", "unknown"]


class FromUser(Struct, frozen=True):
    text: str


class CallMade(Struct, frozen=True):
    id: str
    tool: str
    input: dict[str, Any]


class FromModel(Struct, frozen=True):
    text: str
    reasoning: str = ""
    calls: tuple[CallMade, ...] = ()


class FromTool(Struct, frozen=True):
    call_id: str
    tool: str
    output: str
    failed: bool = False


Told: TypeAlias = FromUser | FromModel | FromTool


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Struct, frozen=True, kw_only=True):
    model: ModelRef
    messages: Sequence[Told]
    tools: tuple[ToolSpec, ...] = ()
    system: str = ""


class StreamStart(Struct, frozen=True, tag="start"):
    pass


class StepStart(Struct, frozen=True, tag="start-step"):
    pass


class ReasoningStart(Struct, frozen=True, tag="reasoning-start"):
    id: str


class ReasoningDelta(Struct, frozen=True, tag="reasoning-delta"):
    id: str
    text: str


class ReasoningEnd(Struct, frozen=True, tag="reasoning-end"):
    id: str
    metadata: dict[str, Any] | None = None


class TextStart(Struct, frozen=True, tag="text-start"):
    id: str


class TextDelta(Struct, frozen=True, tag="text-delta"):
    id: str
    text: str


class TextEnd(Struct, frozen=True, tag="text-end"):
    id: str


class ToolCallStart(Struct, frozen=True, tag="tool-call-start"):
    """The model has begun to write a call; its input is not known yet."""

    id: str
    tool: str


class ToolCallReady(Struct, frozen=True, tag="tool-call"):
    id: str
    tool: str
    input: dict[str, Any]


class StepFinish(Struct, frozen=True, tag="finish-step"):
    finish: Finish
    tokens: Tokens | None = None
    cost: float = 0


class StreamFinish(Struct, frozen=True, tag="finish"):
    pass


class StreamError(Struct, frozen=True, tag="error"):
    failure: Failure


ModelEvent: TypeAlias = (
    StreamStart
    | StepStart
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | TextStart
    | TextDelta
    | TextEnd
    | ToolCallStart
    | ToolCallReady
    | StepFinish
    | StreamFinish
    | StreamError
)


class Model(Protocol):
    def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Closing the generator, or cancelling the task that reads it, ends the request."""
        ...
