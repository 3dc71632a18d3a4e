"""Streams as providers send them, and a way to read them without a network."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from asyncagents.domain.sse import SseDecoder, SseEvent
from asyncagents.llm.anthropic.stream import AnthropicReader
from asyncagents.llm.http.client import MAX_EVENT
from asyncagents.llm.http.errors import RequestTarget
from asyncagents.llm.http.request import WireReader
from asyncagents.llm.model import ModelEvent, StepFinish, TextDelta, ToolCallReady
from asyncagents.llm.openai.stream import OpenAIReader

TARGET = RequestTarget(provider_id="acme", model_id="sage-1", url="https://api.acme.test/v1")

MakeReader = Callable[[], WireReader]


def openai_reader() -> OpenAIReader:
    return OpenAIReader(TARGET, seed="1")


def anthropic_reader() -> AnthropicReader:
    return AnthropicReader(TARGET, seed="1")


def play(reader: WireReader, chunks: Iterable[bytes]) -> list[ModelEvent]:
    """What a stream of these bytes says, up to its end."""
    decoder = SseDecoder(MAX_EVENT)
    events: list[ModelEvent] = []

    def read(decoded: list[SseEvent]) -> None:
        events.extend(reader.read([event.data for event in decoded]))

    for chunk in chunks:
        if reader.is_over:
            break
        read(decoder.feed(chunk))
    if not reader.is_over:
        read(decoder.end())
    return events if reader.failed else events + reader.end()


def in_bytes(stream: bytes) -> Iterable[bytes]:
    return (stream[n : n + 1] for n in range(len(stream)))


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def calls_of(events: list[ModelEvent]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(event.id, event.tool, event.input) for event in events if isinstance(event, ToolCallReady)]


def finish_of(events: list[ModelEvent]) -> StepFinish | None:
    return next((event for event in events if isinstance(event, StepFinish)), None)


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One chunk of OpenAI's wire."""
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}
    head = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "sage-1"}
    return b"data: " + json.dumps({**head, "choices": [choice], **more}).encode() + b"\n\n"


def tool_delta(**call: Any) -> bytes:
    name, arguments = call.pop("name", None), call.pop("arguments", None)
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return chunk({"tool_calls": [{**call, "function": function}]})


DONE = b"data: [DONE]\n\n"


def event(kind: str, **fields: Any) -> bytes:
    """One event of Anthropic's wire."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def block_start(index: int, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def block_delta(index: int, kind: str, **delta: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **delta})


def block_stop(index: int) -> bytes:
    return event("content_block_stop", index=index)


def message_start(**usage: int) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    return event("message_start", message=message)


def message_end(reason: str | None, **usage: int) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage=usage) + event("message_stop")


OPENAI_ANSWER = b"".join(
    [
        b": OPENROUTER PROCESSING\n\n",
        chunk({"role": "assistant", "content": ""}, usage=None),
        chunk({"reasoning_content": "Let me "}),
        chunk({"reasoning_content": "see…"}),
        chunk({"content": "Grüße 🌍, "}),
        chunk({"content": 'say "hi"\nthere'}),
        tool_delta(index=0, id="call_a", type="function", name="read", arguments=""),
        tool_delta(index=0, arguments='{"path": "a'),
        tool_delta(index=1, id="call_b", type="function", name="ls", arguments=""),
        tool_delta(index=0, arguments='.txt"}'),
        tool_delta(index=1, arguments="{}"),
        chunk({}, "tool_calls"),
        b'data: {"id":"chatcmpl-7","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":12,'
        b'"total_tokens":42,"prompt_tokens_details":{"cached_tokens":20},'
        b'"completion_tokens_details":{"reasoning_tokens":5}}}\n\n',
        DONE,
    ]
)

ANTHROPIC_ANSWER = b"".join(
    [
        message_start(
            input_tokens=10, cache_creation_input_tokens=4, cache_read_input_tokens=20, output_tokens=1
        ),
        event("ping"),
        block_start(0, type="thinking", thinking="", signature=""),
        block_delta(0, "thinking_delta", thinking="Let me "),
        block_delta(0, "thinking_delta", thinking="see…"),
        block_delta(0, "signature_delta", signature="c2lnbmVk"),
        block_stop(0),
        block_start(1, type="text", text=""),
        block_delta(1, "text_delta", text="Grüße 🌍, "),
        event("ping"),
        block_delta(1, "text_delta", text='say "hi"\nthere'),
        block_stop(1),
        block_start(2, type="tool_use", id="toolu_a", name="read", input={}),
        block_delta(2, "input_json_delta", partial_json=""),
        block_delta(2, "input_json_delta", partial_json='{"path": "a'),
        block_delta(2, "input_json_delta", partial_json='.txt"}'),
        block_stop(2),
        block_start(3, type="tool_use", id="toolu_b", name="ls", input={}),
        block_stop(3),
        message_end("tool_use", output_tokens=12),
    ]
)

ANSWERS: dict[str, tuple[MakeReader, bytes]] = {
    "openai": (openai_reader, OPENAI_ANSWER),
    "openai with CRLF": (openai_reader, OPENAI_ANSWER.replace(b"\n", b"\r\n")),
    "anthropic": (anthropic_reader, ANTHROPIC_ANSWER),
    "anthropic with CRLF": (anthropic_reader, ANTHROPIC_ANSWER.replace(b"\n", b"\r\n")),
}
