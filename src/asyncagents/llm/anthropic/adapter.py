"""Adapter for Anthropic's Messages API and compatible servers."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from msgspec import Struct

from asyncagents.llm.anthropic.events import (
    AnthropicBlock,
    AnthropicDelta,
    AnthropicEvent,
    AnthropicUsage,
    decode_event,
    finish_of,
)
from asyncagents.llm.anthropic.request import write_body
from asyncagents.llm.http.answer_size import AnswerSize
from asyncagents.llm.http.client import HttpClient
from asyncagents.llm.http.errors import RequestTarget, event_error
from asyncagents.llm.http.request import Endpoint, build_request, clean_key, join_url
from asyncagents.llm.model import (
    ChatRequest,
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
from asyncagents.llm.wire.json_repair import DECODE_ERRORS, decode_repaired, read_arguments
from asyncagents.llm.wire.tool_name import NAMELESS

API_VERSION = "2023-06-01"


class AnthropicMessages:
    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._http = http
        self._endpoint = endpoint

    def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        endpoint = self._endpoint
        headers = {"anthropic-version": API_VERSION}
        if endpoint.api_key is not None:
            headers["x-api-key"] = clean_key(endpoint.api_key).reveal()
        message = build_request(
            endpoint,
            request,
            join_url(endpoint.base_url, _path(endpoint.base_url)),
            headers=headers,
            write=partial(write_body, endpoint, request),
        )
        return self._http.stream(message, AnthropicReader(message.target, seed=str(len(request.messages))))


def _path(base_url: str) -> str:
    """Return the path below the base URL, which may or may not end in the API version."""
    last = base_url.partition("?")[0].rstrip("/").rpartition("/")[2]
    return "/messages" if last[:1] == "v" and last[1:2].isdigit() else "/v1/messages"


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
