"""Read the stream of Anthropic's Messages API: its events become events of the model."""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

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
    ToolCallReady,
    ToolCallStart,
)
from asyncagents.llm.wire.finish import FINISH_REASONS, token_count
from asyncagents.llm.wire.json_repair import DECODE_ERRORS, decode_repaired, read_arguments
from asyncagents.llm.wire.tool_name import NAMELESS


class AnthropicDelta(Struct, gc=False):
    """A delta of a block or of the message, depending on the type of its event."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class AnthropicBlock(Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class AnthropicMessage(Struct, gc=False):
    usage: Any = None


class AnthropicEvent(Struct, gc=False):
    """All event types in one shape, so that unknown types decode and are ignored."""

    type: str
    index: int = 0
    delta: AnthropicDelta | None = None
    content_block: AnthropicBlock | None = None
    message: AnthropicMessage | None = None
    usage: Any = None


decode_event = msgspec.json.Decoder(AnthropicEvent).decode


def finish_of(reason: str) -> Finish:
    return FINISH_REASONS.get(reason, "unknown")


class AnthropicUsage(Struct, frozen=True, kw_only=True):
    """Token counts so far; counts only grow, and an event may lack some of them."""

    input: int = 0
    output: int = 0
    thinking: int = 0
    read: int = 0
    write: int = 0

    def merge(self, usage: Any) -> "AnthropicUsage":
        if not isinstance(usage, dict):
            return self
        return replace(
            self,
            input=max(self.input, token_count(usage, "input_tokens")),
            output=max(self.output, token_count(usage, "output_tokens")),
            thinking=max(self.thinking, token_count(usage.get("output_tokens_details"), "thinking_tokens")),
            read=max(self.read, token_count(usage, "cache_read_input_tokens")),
            write=max(self.write, token_count(usage, "cache_creation_input_tokens")),
        )

    def tokens(self) -> Tokens | None:
        """Convert the counts: the input excludes cached tokens, the output includes thinking."""
        total = self.input + self.read + self.write + self.output
        if not total:
            return None
        return Tokens(
            input=self.input,
            output=max(0, self.output - self.thinking),
            reasoning=self.thinking,
            cache=CacheTokens(read=self.read, write=self.write),
            total=total,
        )


class _OpenBlock(Struct):
    """A content block that the stream has started and not stopped."""

    kind: str
    key: str
    tool: str = ""
    pieces: list[str] = []
    given: Any = None
    metadata: dict[str, Any] | None = None


class AnthropicReader:
    """Convert the events of one answer. `seed` makes keys for calls that have no id."""

    def __init__(self, target: RequestTarget, *, seed: str) -> None:
        self.started = False
        self.has_content = False
        self.finished = False
        self.is_over = False
        self.failed = False
        self._target = target
        self._seed = seed
        self._size = AnswerSize()
        self._open: dict[int, _OpenBlock] = {}
        self._blocks = 0
        self._keys: set[str] = set()
        self._reason = ""
        self._usage = AnthropicUsage()

    def read(self, payloads: list[bytes]) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        for data in payloads:
            self.started = True
            if not data:
                continue
            try:
                event: AnthropicEvent | None = decode_event(data)
            except DECODE_ERRORS:
                event = decode_repaired(data, decode_event)
            if event is None or event.type == "error":
                self._fail(event, data, events)
                break
            self._handle_event(event, events)
            if self.is_over:
                break
        return events

    def end(self) -> list[ModelEvent]:
        if not self.finished:
            return []
        events: list[ModelEvent] = []
        for index in list(self._open):
            self._close(index, events)
        return [*events, StepFinish(finish_of(self._reason), self._usage.tokens()), StreamFinish()]

    def _fail(self, event: AnthropicEvent | None, data: bytes, events: list[ModelEvent]) -> None:
        """End the stream; an error after the stop reason is ignored, because the answer is complete."""
        self.is_over = True
        self.failed = not self.finished or finish_of(self._reason) == "error"
        if self.failed:
            events.append(event_error(self._target, data, broken=event is None))

    def _handle_event(self, event: AnthropicEvent, events: list[ModelEvent]) -> None:
        match event.type:
            case "content_block_delta":
                self._add_delta(event.index, event.delta, events)
            case "content_block_start":
                self._begin(event.index, event.content_block or AnthropicBlock(), events)
            case "content_block_stop":
                self._close(event.index, events)
            case "message_start":
                self._usage = self._usage.merge(event.message.usage if event.message else None)
            case "message_delta":
                self._usage = self._usage.merge(event.usage)
                self._finish(event.delta)
            case "message_stop":
                self.is_over = True
            case _:  # a ping, or an event type that is not known here
                pass

    def _finish(self, delta: AnthropicDelta | None) -> None:
        if delta is not None and delta.stop_reason:
            self.has_content = self.finished = True
            self._reason = delta.stop_reason

    def _add_delta(self, index: int, delta: AnthropicDelta | None, events: list[ModelEvent]) -> None:
        block = self._open.get(index)
        if block is None or delta is None:
            return
        if block.kind == "text" and delta.text:
            self._size.add_text(delta.text)
            events.append(TextDelta(block.key, delta.text))
        elif block.kind == "thinking" and delta.thinking:
            self._size.add_text(delta.thinking)
            events.append(ReasoningDelta(block.key, delta.thinking))
        elif block.kind == "thinking" and delta.signature:
            self._size.add_text(delta.signature)
            block.metadata = self._metadata(signature=delta.signature)
        elif block.kind == "tool_use" and delta.partial_json:
            self._size.add_arguments(block.key, delta.partial_json)
            block.pieces.append(delta.partial_json)
        else:
            return
        self.has_content = True

    def _begin(self, index: int, block: AnthropicBlock, events: list[ModelEvent]) -> None:
        self._size.add_block()
        self._close(index, events)
        self._blocks += 1
        opened = _OpenBlock(block.type, f"{block.type}-{self._blocks}")
        match block.type:
            case "text":
                events.append(TextStart(opened.key))
            case "thinking":
                events.append(ReasoningStart(opened.key))
            case "redacted_thinking":
                self._size.add_text(block.data or "")
                opened.metadata = self._metadata(redacted=block.data or "")
                events.append(ReasoningStart(opened.key))
            case "tool_use":
                self._size.add_call(block.id, block.name)
                opened.key, opened.tool, opened.given = (
                    self._call_key(block.id),
                    block.name or "",
                    block.input,
                )
                self._size.add_arguments(opened.key, str(block.input or ""))
                events.append(ToolCallStart(opened.key, opened.tool or NAMELESS))
            case _:  # blocks of the provider's own tools are not stored
                return
        self._open[index] = opened
        self._add_delta(index, AnthropicDelta(text=block.text, thinking=block.thinking), events)

    def _close(self, index: int, events: list[ModelEvent]) -> None:
        block = self._open.pop(index, None)
        if block is None:
            return
        match block.kind:
            case "text":
                events.append(TextEnd(block.key))
            case "tool_use":
                self._add_ready_call(block, events)
            case _:
                events.append(ReasoningEnd(block.key, block.metadata))

    def _add_ready_call(self, block: _OpenBlock, events: list[ModelEvent]) -> None:
        """Emit the call once its arguments parse; some servers send them with the start of the block."""
        given = block.given if isinstance(block.given, dict) and not block.pieces else None
        arguments = given or read_arguments("".join(block.pieces))
        if arguments is not None and block.tool:
            events.append(ToolCallReady(block.key, block.tool, arguments))

    def _call_key(self, given: str | None) -> str:
        call_key = given or ""
        if not call_key or call_key in self._keys:
            call_key = f"call_{self._seed}_{self._blocks}"
        self._keys.add(call_key)
        return call_key

    def _metadata(self, **kept: str) -> dict[str, Any]:
        """Build the metadata that is sent back with the thinking block, to the same model only."""
        return {"anthropic": {**kept, "model": self._target.model_id}}
