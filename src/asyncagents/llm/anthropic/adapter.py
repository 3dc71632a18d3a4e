"""Adapter for Anthropic's Messages API and compatible servers."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from msgspec import Struct

from asyncagents.llm.anthropic.events import Block, Delta, Event, Usage, decode_event, finish_of
from asyncagents.llm.anthropic.request import write_body
from asyncagents.llm.http.answer_size import AnswerSize
from asyncagents.llm.http.client import Http
from asyncagents.llm.http.errors import BROKEN, Answer, Target, garbled, refused
from asyncagents.llm.http.request import Endpoint, at, key, post
from asyncagents.llm.model import (
    ModelEvent,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    Request,
    StepFinish,
    StreamFinish,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
)
from asyncagents.llm.wire.json_repair import UNREADABLE, mended, read_arguments
from asyncagents.llm.wire.tool_name import NAMELESS

VERSION = "2023-06-01"


class AnthropicMessages:
    def __init__(self, http: Http, endpoint: Endpoint) -> None:
        self._http = http
        self._endpoint = endpoint

    def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        endpoint = self._endpoint
        headers = {"anthropic-version": VERSION}
        if endpoint.api_key is not None:
            headers["x-api-key"] = key(endpoint.api_key).reveal()
        message = post(
            endpoint,
            request,
            at(endpoint.base_url, _path(endpoint.base_url)),
            headers=headers,
            write=partial(write_body, endpoint, request),
        )
        return self._http.stream(message, AnthropicReader(message.target, seed=str(len(request.messages))))


def _path(base_url: str) -> str:
    """Return the path below the base URL, which may or may not end in the API version."""
    last = base_url.partition("?")[0].rstrip("/").rpartition("/")[2]
    return "/messages" if last[:1] == "v" and last[1:2].isdigit() else "/v1/messages"


class _Open(Struct):
    """A content block that the stream has started and not stopped."""

    kind: str
    key: str
    tool: str = ""
    pieces: list[str] = []
    given: Any = None
    metadata: dict[str, Any] | None = None


class AnthropicReader:
    """Convert the events of one answer. `seed` makes keys for calls that have no id."""

    def __init__(self, target: Target, *, seed: str) -> None:
        self.begun = False
        self.heard = False
        self.finished = False
        self.over = False
        self.failed = False
        self._target = target
        self._seed = seed
        self._size = AnswerSize()
        self._open: dict[int, _Open] = {}
        self._blocks = 0
        self._keys: set[str] = set()
        self._reason = ""
        self._usage = Usage()

    def read(self, payloads: list[bytes]) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        for data in payloads:
            self.begun = True
            if not data:
                continue
            try:
                event: Event | None = decode_event(data)
            except UNREADABLE:
                event = mended(data, decode_event)
            if event is None or event.type == "error":
                self._fail(event, data, events)
                break
            self._take(event, events)
            if self.over:
                break
        return events

    def end(self) -> list[ModelEvent]:
        if not self.finished:
            return []
        events: list[ModelEvent] = []
        for index in list(self._open):
            self._close(index, events)
        return [*events, StepFinish(finish_of(self._reason), self._usage.tokens()), StreamFinish()]

    def _fail(self, event: Event | None, data: bytes, events: list[ModelEvent]) -> None:
        """End the stream; an error after the stop reason is ignored, because the answer is complete."""
        self.over = True
        self.failed = not self.finished or finish_of(self._reason) == "error"
        if not self.failed:
            return
        answer = Answer(body=data)
        broken = event is None
        events.append(garbled(self._target, BROKEN, answer) if broken else refused(self._target, answer))

    def _take(self, event: Event, events: list[ModelEvent]) -> None:
        match event.type:
            case "content_block_delta":
                self._said(event.index, event.delta, events)
            case "content_block_start":
                self._begin(event.index, event.content_block or Block(), events)
            case "content_block_stop":
                self._close(event.index, events)
            case "message_start":
                self._usage = self._usage.plus(event.message.usage if event.message else None)
            case "message_delta":
                self._usage = self._usage.plus(event.usage)
                self._finish(event.delta)
            case "message_stop":
                self.over = True
            case _:  # a ping, or an event type that is not known here
                pass

    def _finish(self, delta: Delta | None) -> None:
        if delta is not None and delta.stop_reason:
            self.heard = self.finished = True
            self._reason = delta.stop_reason

    def _said(self, index: int, delta: Delta | None, events: list[ModelEvent]) -> None:
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
        self.heard = True

    def _begin(self, index: int, block: Block, events: list[ModelEvent]) -> None:
        self._size.add_block()
        self._close(index, events)
        self._blocks += 1
        opened = _Open(block.type, f"{block.type}-{self._blocks}")
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
        self._said(index, Delta(text=block.text, thinking=block.thinking), events)

    def _close(self, index: int, events: list[ModelEvent]) -> None:
        block = self._open.pop(index, None)
        if block is None:
            return
        match block.kind:
            case "text":
                events.append(TextEnd(block.key))
            case "tool_use":
                self._ready(block, events)
            case _:
                events.append(ReasoningEnd(block.key, block.metadata))

    def _ready(self, block: _Open, events: list[ModelEvent]) -> None:
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
