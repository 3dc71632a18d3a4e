"""Adapter for OpenAI's chat completions and compatible servers: Ollama, vLLM, LM Studio, OpenRouter, …"""

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, Generic, Literal, TypeAlias, TypeVar

import msgspec

from asyncagents.domain.bounded_dict import BoundedDict
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
    ToolSpec,
)
from asyncagents.llm.openai.calls import CallAssembler
from asyncagents.llm.openai.events import (
    DONE,
    Chunk,
    ChunkDelta,
    ToolDelta,
    decode_chunk,
    finish_of,
    reasoning_in,
    text_in,
    thinking_in,
    tokens_of,
)
from asyncagents.llm.openai.request import tool_definitions, write_body
from asyncagents.llm.wire.json_repair import DECODE_ERRORS, decode_repaired

T = TypeVar("T")
MAX_ENTRIES = 16


class EncodedCache(Generic[T]):
    """Encodes immutable values once, by identity."""

    def __init__(self, write: Callable[[T], Any]) -> None:
        self._write = write
        self._known: BoundedDict[int, tuple[T, msgspec.Raw]] = BoundedDict(MAX_ENTRIES)

    def __call__(self, value: T) -> msgspec.Raw:
        kept = self._known.get(id(value))
        if kept is None:
            kept = self._known[id(value)] = value, msgspec.Raw(msgspec.json.encode(self._write(value)))
        return kept[1]


BlockKind: TypeAlias = Literal["text", "reasoning"]


class OpenAIChat:
    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._http = http
        self._endpoint = endpoint
        self._tools: EncodedCache[tuple[ToolSpec, ...]] = EncodedCache(tool_definitions)

    def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        endpoint = self._endpoint
        auth = {}
        if endpoint.api_key is not None:
            auth["authorization"] = f"Bearer {clean_key(endpoint.api_key).reveal()}"
        message = build_request(
            endpoint,
            request,
            join_url(endpoint.base_url, "/chat/completions"),
            headers=auth,
            write=partial(write_body, endpoint, request, tools=self._tools),
        )
        return self._http.stream(message, OpenAIReader(message.target, seed=str(len(request.messages))))


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
