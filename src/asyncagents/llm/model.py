"""The interface to language models: a request in, a stream of events out."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from asyncagents.domain.conversation.failure import Failure
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.window import Window

Finish: TypeAlias = Literal["stop", "tool-calls", "length", "content-filter", "error", "unknown"]


class Attachment(Struct, frozen=True):
    """A file attached to a message; `url` is a `data:` URL, or one that the provider can fetch."""

    mime: str
    url: str
    filename: str | None = None


class UserTurn(Struct, frozen=True):
    text: str
    files: tuple[Attachment, ...] = ()


class TextBlock(Struct, frozen=True):
    text: str


class ThinkingBlock(Struct, frozen=True):
    """Reasoning of the model; `metadata` is sent back to the provider, e.g. a signature, by wire."""

    text: str
    metadata: dict[str, Any] | None = None


class ToolCallBlock(Struct, frozen=True):
    id: str
    tool: str
    input: dict[str, Any]


Block: TypeAlias = TextBlock | ThinkingBlock | ToolCallBlock


class ModelTurn(Struct, frozen=True):
    """What the model wrote in one step, in order."""

    blocks: tuple[Block, ...]

    @property
    def text(self) -> str:
        return "\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def calls(self) -> tuple[ToolCallBlock, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolCallBlock))


class ToolTurn(Struct, frozen=True):
    call_id: str
    tool: str
    output: str
    failed: bool = False
    files: tuple[Attachment, ...] = ()


RequestMessage: TypeAlias = UserTurn | ModelTurn | ToolTurn


class ToolSpec(Struct, frozen=True):
    """A tool as the model sees it; `parameters` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]
    tokens: int = 0
    """The estimated size of this definition in a request."""


class Options(Struct, frozen=True, kw_only=True):
    """Options of a request; None leaves the choice to the provider."""

    temperature: float | None = None
    top_p: float | None = None
    max_output: int | None = None
    body: dict[str, Any] = {}
    """Further fields of the request body, under the provider's names."""


class ChatRequest(Struct, frozen=True, kw_only=True):
    model: ModelRef
    messages: Sequence[RequestMessage]
    tools: tuple[ToolSpec, ...] = ()
    system: str = ""
    options: Options = Options()
    tool_choice: str | None = None
    """The tool that must be called, or `required` for any. Omitted where the wire refuses to force one."""


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
    """The model has started to write a call; its input is not complete yet."""

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
    """The request failed, before or during the stream; `retry_after`: seconds until the next try."""

    failure: Failure
    retry_after: float | None = None
    retries: int | None = None
    """The most retries of this request; None: the usual number."""


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


WindowLookup: TypeAlias = Callable[[ModelRef], Window]
"""Returns the window of a model."""


def no_window(model: ModelRef) -> Window:
    """Return an unknown window."""
    return Window()


@runtime_checkable
class HasWindow(Protocol):
    """A model that knows its window; sessions that outgrow the window are compacted."""

    def window(self, model: ModelRef) -> Window: ...


class Model(Protocol):
    """A language model, or a program that stands for one."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events; closing the generator, or cancelling the task that reads it, ends the request.

        A failure of the provider is a `StreamError` event, never an exception.
        """
        ...
