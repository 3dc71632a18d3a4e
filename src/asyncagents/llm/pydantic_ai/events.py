"""Convert stream events of pydantic-ai to model events."""

from collections.abc import Iterator

from pydantic_ai.messages import (
    FinishReason,
    ModelResponse,
    ModelResponsePart,
    ModelResponsePartDelta,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.usage import RequestUsage

from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.text import replace_surrogates, replace_surrogates_in
from asyncagents.llm.http.answer_size import AnswerSize
from asyncagents.llm.model import (
    Finish,
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepFinish,
    StreamFinish,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
)
from asyncagents.llm.pydantic_ai.request import thinking_metadata
from asyncagents.llm.wire.json_repair import read_arguments
from asyncagents.llm.wire.tool_name import NAMELESS

_FINISH: dict[FinishReason, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content-filter",
    "tool_call": "tool-calls",
    "error": "error",
}


class PydanticAiReader:
    """Convert the parts of one answer; a part that starts again under its index replaces the first."""

    def __init__(self, model_id: str) -> None:
        self._model_id = model_id
        self._open: dict[int, str] = {}
        """Keys of the open parts by index; the key of a call is its id."""
        self._parts = 0
        self._size = AnswerSize()

    def read(self, event: ModelResponseStreamEvent) -> Iterator[ModelEvent]:
        match event:
            case PartDeltaEvent(index=index, delta=delta):
                yield from self._add_delta(index, delta)
            case PartStartEvent(index=index, part=part):
                yield from self._begin(index, part)
            case PartEndEvent(index=index, part=part):
                yield from self._end(index, part)
            case _:  # final result events are not used
                pass

    def _begin(self, index: int, part: ModelResponsePart) -> Iterator[ModelEvent]:
        self._parts += 1
        self._size.add_block()
        key = self._open[index] = f"{part.part_kind}-{self._parts}"
        match part:
            case TextPart(content=text):
                yield TextStart(key)
                if text:
                    self._size.add_text(text)
                    yield TextDelta(key, text)
            case ThinkingPart(content=text):
                yield ReasoningStart(key)
                if text:
                    self._size.add_text(text)
                    yield ReasoningDelta(key, text)
            case ToolCallPart(tool_name=tool, tool_call_id=call_id, args=args):
                self._size.add_call(call_id, tool)
                self._size.add_arguments(call_id, _arguments_text(args))
                key = self._open[index] = replace_surrogates(call_id)
                yield ToolCallStart(key, replace_surrogates(tool) or NAMELESS)
            case _:  # parts of the provider's own tools are not stored
                del self._open[index]

    def _add_delta(self, index: int, delta: ModelResponsePartDelta) -> Iterator[ModelEvent]:
        key = self._open.get(index)
        if key is None:  # citations come after the end
            return
        match delta:
            case TextPartDelta(content_delta=text) if text:
                self._size.add_text(text)
                yield TextDelta(key, text)
            case ThinkingPartDelta(content_delta=text) if text:
                self._size.add_text(text)
                yield ReasoningDelta(key, text)
            case ToolCallPartDelta(args_delta=args) if args:
                self._size.add_arguments(key, _arguments_text(args))
            case _:  # arguments and signatures are read when the part ends
                pass

    def _end(self, index: int, part: ModelResponsePart) -> Iterator[ModelEvent]:
        key = self._open.pop(index, None)
        if key is None:
            return
        match part:
            case TextPart():
                yield TextEnd(key)
            case ThinkingPart():
                self._size.add_text(part.signature or "")
                yield ReasoningEnd(key, thinking_metadata(part, self._model_id))
            case ToolCallPart(tool_name=tool, args=args):
                given = replace_surrogates_in(args) if isinstance(args, dict) else read_arguments(args or "")
                if given is not None and tool:
                    yield ToolCallReady(key, replace_surrogates(tool), given)
            case _:
                pass


def _arguments_text(args: object) -> str:
    """Return the arguments as text, to count their size."""
    return args if isinstance(args, str) else str(args or "")


def final_events(response: ModelResponse) -> Iterator[ModelEvent]:
    """Yield the finish events; none if the stream had no finish reason, since the library then invents one.

    The provider's own reason is in `provider_details`, except for a refusal.
    """
    finish = response.finish_reason
    reason = (response.provider_details or {}).get("finish_reason")
    if reason or finish == "content_filter":
        yield StepFinish(_FINISH[finish] if finish else "unknown", tokens_of(response.usage))
        yield StreamFinish()


def tokens_of(usage: RequestUsage) -> Tokens | None:
    """Convert the usage: the library includes cached tokens in the input and reasoning in the output."""
    if not usage.input_tokens and not usage.output_tokens:
        return None
    read, write = usage.cache_read_tokens, usage.cache_write_tokens
    details = usage.details
    reasoning = (
        usage.output_reasoning_tokens
        or details.get("reasoning_tokens")
        or details.get("thoughts_tokens")
        or 0
    )
    return Tokens(
        input=max(0, usage.input_tokens - read - write),
        output=max(0, usage.output_tokens - reasoning),
        reasoning=reasoning,
        cache=CacheTokens(read=read, write=write),
        total=usage.input_tokens + usage.output_tokens,
    )
