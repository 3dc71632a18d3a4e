"""An answer that is larger than any model writes is cut off, and not asked for again."""

import asyncio

import pytest

from asyncagents.llm.http import answer_size
from asyncagents.llm.http.answer_size import MOST_ARGUMENTS, MOST_BLOCKS, MOST_CALLS, MOST_CHARACTERS
from asyncagents.llm.http.client import HttpClient
from asyncagents.llm.model import ToolCallReady, ToolCallStart
from asyncagents.testing.provider import Reply, ToolUse, open_provider
from tests.support.llm.stream import anthropic_reader, calls_of, openai_reader
from tests.support.llm.wire import Wire, ask_model, cause_of, finish_of, open_raw, read_request, text_of

PATIENCE = 30.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def _calls(count: int) -> Reply:
    return Reply(text="", tools=tuple(ToolUse("ls", {"n": number}) for number in range(count)))


@pytest.mark.parametrize(
    ("reply", "much"),
    [
        (_calls(MOST_CALLS + 1), "512 calls of tools"),
        (
            Reply(text="", tools=(ToolUse("ls", {"x": "x" * MOST_ARGUMENTS}),)),
            "4 Mi characters of arguments for one call",
        ),
        (Reply(text="x" * (MOST_CHARACTERS + 64), chunks=64), "16 Mi characters"),
        (Reply(text="", reasoning="x" * (MOST_CHARACTERS + 64), chunks=64), "16 Mi characters"),
    ],
    ids=["calls", "arguments", "text", "thoughts"],
)
async def test_an_answer_that_is_too_large_is_cut_off(
    wire: Wire, http: HttpClient, reply: Reply, much: str
) -> None:
    async with open_provider(otherwise=reply) as provider:
        events = await ask_model(wire.model(http, provider.url))
    cause = cause_of(events)
    assert cause.message == f"local sent more than {much} in one answer, and was cut off"
    assert not cause.is_retryable
    assert not [event for event in events if isinstance(event, ToolCallReady)] or "calls" in much
    assert len([event for event in events if isinstance(event, ToolCallStart)]) <= MOST_CALLS


async def test_an_answer_within_the_size_limits_is_read_whole(wire: Wire, http: HttpClient) -> None:
    calls = tuple(ToolUse("ls", {"n": number}) for number in range(MOST_CALLS - 1))
    large = ToolUse("ls", {"x": "x" * (MOST_ARGUMENTS - 100)})
    async with open_provider(otherwise=Reply(text="x" * 10_000, tools=(*calls, large))) as provider:
        events = await ask_model(wire.model(http, provider.url))
    assert finish_of(events) is not None
    assert len(calls_of(events)) == MOST_CALLS
    assert text_of(events) == "x" * 10_000


async def test_comments_without_end_are_cut_off(
    wire: Wire, http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_size, "MOST_BYTES", 4 * 1024 * 1024)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD)
        while True:
            writer.write(b": ping\n\n" * 8_192)
            await writer.drain()

    async with open_raw(serve) as url, asyncio.timeout(PATIENCE):
        cause = cause_of(await ask_model(wire.model(http, url)))
    assert "local sent more than 4 MiB in one answer" in cause.message
    assert not cause.is_retryable


def test_too_many_text_and_reasoning_blocks_are_refused() -> None:
    pieces = [
        b'{"choices": [{"delta": {"content": "a"}}]}',
        b'{"choices": [{"delta": {"reasoning_content": "b"}}]}',
    ]
    with pytest.raises(answer_size.AnswerTooLarge, match=f"{MOST_BLOCKS} texts and thoughts"):
        openai_reader().read(pieces * MOST_BLOCKS)
    start = b'{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}}'
    with pytest.raises(answer_size.AnswerTooLarge, match=f"{MOST_BLOCKS} texts and thoughts"):
        anthropic_reader().read([start] * (MOST_BLOCKS + 1))
