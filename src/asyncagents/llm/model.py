"""The one door to a language model: a request goes in, a stream of events comes out."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from asyncagents.domain.failure import Failure
from asyncagents.domain.message import ModelRef
from asyncagents.domain.session import Tokens
from asyncagents.domain.window import Window

Finish: TypeAlias = Literal["stop", "tool-calls", "length", "content-filter", "error", "unknown"]


class Attachment(Struct, frozen=True):
    """A file beside a text; `url` is a `data:` URL, or an address that the provider can read itself."""

    mime: str
    url: str
    filename: str | None = None


class FromUser(Struct, frozen=True):
    text: str
    files: tuple[Attachment, ...] = ()


class Said(Struct, frozen=True):
    text: str


class Thought(Struct, frozen=True):
    """`metadata` is what the provider wants back with it, under the provider's wire: a signature, say."""

    text: str
    metadata: dict[str, Any] | None = None


class CallMade(Struct, frozen=True):
    id: str
    tool: str
    input: dict[str, Any]


Block: TypeAlias = Said | Thought | CallMade


class FromModel(Struct, frozen=True):
    """One step, in the order in which it was written."""

    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.blocks if isinstance(block, Said))

    @property
    def calls(self) -> tuple[CallMade, ...]:
        return tuple(block for block in self.blocks if isinstance(block, CallMade))


class FromTool(Struct, frozen=True):
    call_id: str
    tool: str
    output: str
    failed: bool = False
    files: tuple[Attachment, ...] = ()


Told: TypeAlias = FromUser | FromModel | FromTool


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]
    tokens: int = 0
    """What it takes of a request, as far as one can tell."""


class Options(Struct, frozen=True, kw_only=True):
    """What an agent asks of its model; None leaves it to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    max_output: int | None = None
    body: dict[str, Any] = {}
    """Fields of the provider's own request, as its documentation names them."""


class Request(Struct, frozen=True, kw_only=True):
    model: ModelRef
    messages: Sequence[Told]
    tools: tuple[ToolSpec, ...] = ()
    system: str = ""
    options: Options = Options()
    tool_choice: str | None = None
    """The tool that must be called, or `required`: any. A wire that refuses to force one leaves it out."""


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
    """The request failed, before its first word or after; `retry_after`: when to try again, in seconds."""

    failure: Failure
    retry_after: float | None = None
    retries: int | None = None
    """How often the same is tried again at most; None: as often as usual."""


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


Windows: TypeAlias = Callable[[ModelRef], Window]
"""How much a model can read and write."""


def no_window(model: ModelRef) -> Window:
    """Nobody knows."""
    return Window()


@runtime_checkable
class Windowed(Protocol):
    """A model may say how much it can read; then a conversation that grows too long for it is summarised."""

    def window(self, model: ModelRef) -> Window: ...


class Model(Protocol):
    def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """Closing the generator, or cancelling the task that reads it, ends the request.

        A provider's failure is a `StreamError`, never an exception.
        """
        ...
