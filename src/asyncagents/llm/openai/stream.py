"""Read the stream of OpenAI's chat completions: its chunks become events of the model."""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.llm.http.answer_size import AnswerSize
from asyncagents.llm.http.errors import RequestTarget, event_error
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
)
from asyncagents.llm.openai.calls import CallAssembler, FunctionDelta, ToolDelta
from asyncagents.llm.wire.finish import FINISH_REASONS, token_count
from asyncagents.llm.wire.json_repair import DECODE_ERRORS, decode_repaired

DONE = b"[DONE]"

_FINISH: dict[str, Finish] = FINISH_REASONS | {"function_call": "tool-calls"}


class ChunkDelta(Struct, gc=False):
    content: str | list[Any] | None = None
    tool_calls: list[ToolDelta] | None = None
    function_call: FunctionDelta | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None


class ChunkChoice(Struct, gc=False):
    delta: ChunkDelta | None = None
    finish_reason: str | None = None


class Chunk(Struct, gc=False):
    choices: list[ChunkChoice] | None = None
    usage: Any = None
    error: Any = None
    object: str | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode


def finish_of(reason: str) -> Finish:
    return _FINISH.get(reason, "unknown")


def tokens_of(usage: Any) -> Tokens | None:
    """Convert the usage: the API includes cached tokens in the prompt and reasoning in the completion."""
    prompt, completion = token_count(usage, "prompt_tokens"), token_count(usage, "completion_tokens")
    total = token_count(usage, "total_tokens") or prompt + completion
    if not total:
        return None
    details = usage.get("prompt_tokens_details")
    read = token_count(details, "cached_tokens")
    read = read or token_count(usage, "prompt_cache_hit_tokens")  # DeepSeek's
    write = token_count(details, "cache_write_tokens")  # OpenRouter's
    reasoning = token_count(usage.get("completion_tokens_details"), "reasoning_tokens")
    # xAI excludes reasoning from the completion, which shows in its total.
    inside = total < prompt + completion + reasoning
    return Tokens(
        input=max(0, prompt - read - write),
        output=max(0, completion - reasoning if inside else completion),
        reasoning=reasoning,
        cache=CacheTokens(read=read, write=write),
        total=total,
    )


def reasoning_in(delta: ChunkDelta) -> str:
    """Return the reasoning text: DeepSeek and vLLM have one field for it, OpenRouter another, and a list."""
    if delta.reasoning_content or delta.reasoning:
        return delta.reasoning_content or delta.reasoning or ""
    return "".join(_texts(delta.reasoning_details or [], "text", "summary"))


def text_in(content: list[Any]) -> str:
    return "".join(_texts(content, "text"))


def thinking_in(content: list[Any]) -> str:
    """Return the thinking items that Mistral puts into the content."""
    thoughts = [item["thinking"] for item in content if isinstance(item, dict) and "thinking" in item]
    return "".join(text_in(thought) if isinstance(thought, list) else str(thought) for thought in thoughts)


def _texts(items: list[Any], *names: str) -> list[str]:
    found = [item.get(name) for item in items if isinstance(item, dict) for name in names]
    return [text for text in found if isinstance(text, str)]


BlockKind: TypeAlias = Literal["text", "reasoning"]


class OpenAIReader:
    """Convert the chunks of one answer. `seed` makes keys for calls that have no id."""

    def __init__(self, target: RequestTarget, *, seed: str) -> None:
        self.started = False
        self.has_content = False
        self.finished = False
        self.is_over = False
        self.failed = False
        self._target = target
        self._size = AnswerSize()
        self._calls = CallAssembler(seed, self._size)
        self._block: BlockKind | None = None
        self._key = ""
        self._blocks = 0
        self._has_reasoning_field = False
        self._reason = ""
        self._usage: Any = None

    def read(self, payloads: list[bytes]) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        for data in payloads:
            self.started = True
            if data == DONE:
                self.is_over = True
                break
            if not data:
                continue
            try:
                chunk: Chunk | None = decode_chunk(data)
            except DECODE_ERRORS:
                chunk = decode_repaired(data, decode_chunk)
            if chunk is None or chunk.error or chunk.object == "error":
                self._fail(chunk, data, events)
                break
            self._handle_chunk(chunk, events)
        return events

    def end(self) -> list[ModelEvent]:
        if not self.finished:
            return []
        events: list[ModelEvent] = []
        self._close(events)
        events += self._calls.ready_events()
        return [*events, StepFinish(finish_of(self._reason), tokens_of(self._usage)), StreamFinish()]

    def _fail(self, chunk: Chunk | None, data: bytes, events: list[ModelEvent]) -> None:
        """End the stream; an error after the finish reason is ignored, because the answer is complete."""
        self.is_over = True
        self.failed = not self.finished or finish_of(self._reason) == "error"
        if self.failed:
            events.append(event_error(self._target, data, broken=chunk is None))

    def _handle_chunk(self, chunk: Chunk, events: list[ModelEvent]) -> None:
        if chunk.usage is not None:
            self._usage = chunk.usage
        if not chunk.choices:
            return
        choice = chunk.choices[0]
        delta = choice.delta
        if delta is not None:
            text = delta.content
            if type(text) is str and text and self._block == "text":  # nearly every chunk
                self.has_content = True
                self._size.add_text(text)
                events.append(TextDelta(self._key, text))
            else:
                self._add_delta(delta, events)
            if delta.tool_calls or delta.function_call:
                self._add_calls(delta, events)
        if choice.finish_reason:
            self.has_content = self.finished = True
            self._reason = choice.finish_reason

    def _add_delta(self, delta: ChunkDelta, events: list[ModelEvent]) -> None:
        content = delta.content
        thought = reasoning_in(delta)
        if isinstance(content, list):
            thought, content = thought + thinking_in(content), text_in(content)
        if delta.reasoning_content:
            self._has_reasoning_field = True
        if thought:
            self._size.add_text(thought)
            self._open("reasoning", events)
            events.append(ReasoningDelta(self._key, thought))
        if text := content or delta.refusal:  # a refusal is shown as text
            self._size.add_text(text)
            self._open("text", events)
            events.append(TextDelta(self._key, text))

    def _add_calls(self, delta: ChunkDelta, events: list[ModelEvent]) -> None:
        calls = delta.tool_calls or [ToolDelta(index=0, function=delta.function_call)]
        for call in calls:
            started = self._calls.add(call)
            if started is not None:
                self._close(events)
                events.append(started)
        self.has_content = True

    def _open(self, block: BlockKind, events: list[ModelEvent]) -> None:
        self.has_content = True
        if self._block == block:
            return
        self._size.add_block()
        self._close(events)
        self._block = block
        self._blocks += 1
        self._key = f"{block}-{self._blocks}"
        events.append(TextStart(self._key) if block == "text" else ReasoningStart(self._key))

    def _close(self, events: list[ModelEvent]) -> None:
        if self._block == "text":
            events.append(TextEnd(self._key))
        elif self._block == "reasoning":
            events.append(ReasoningEnd(self._key, self._reasoning_metadata()))
        self._block = None

    def _reasoning_metadata(self) -> dict[str, Any] | None:
        """Return the metadata for models that need `reasoning_content` sent back, see `write_body`."""
        if not self._has_reasoning_field:
            return None
        return {"openai": {"field": "reasoning_content", "model": self._target.model_id}}
