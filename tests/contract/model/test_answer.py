"""An answer over real HTTP becomes the same events on either wire."""

from contextlib import aclosing

import pytest

from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.llm.http.client import HttpClient
from asyncagents.llm.model import (
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    StepFinish,
    StepStart,
    StreamFinish,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
)
from asyncagents.testing.provider import Reply, TokenUsage, ToolUse, open_provider
from tests.support.llm.wire import Wire, ask_model, finish_of, hanging_script, request, text_of


@pytest.mark.spec("C-02")
async def test_an_answer_yields_events_in_order_from_start_to_finish(wire: Wire, http: HttpClient) -> None:
    reply = Reply(
        text="Hello there", chunks=3, reasoning="Well", tools=(ToolUse("read", {"path": "a"}, "call_1"),)
    )
    async with open_provider(otherwise=reply) as provider:
        events = await ask_model(wire.model(http, provider.url))
    assert [type(event) for event in events] == [
        StreamStart, StepStart,
        ReasoningStart, ReasoningDelta, ReasoningDelta, ReasoningDelta, ReasoningEnd,
        TextStart, TextDelta, TextDelta, TextDelta, TextEnd,
        ToolCallStart, ToolCallReady,
        StepFinish, StreamFinish,
    ]  # fmt: skip
    assert text_of(events) == "Hello there"
    assert ToolCallReady("call_1", "read", {"path": "a"}) in events


@pytest.mark.spec("C-02")
async def test_a_text_delta_is_yielded_before_the_next_one_is_sent(wire: Wire, http: HttpClient) -> None:
    """The provider waits for ever after the first piece, and the piece is here."""
    async with open_provider(otherwise=hanging_script(wire)) as provider:
        async with aclosing(wire.model(http, provider.url).stream(request())) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        assert isinstance(event, TextDelta)
        assert event.text == "one "


@pytest.mark.spec("C-01")
@pytest.mark.parametrize("finish", ["stop", "tool-calls", "length", "content-filter", "unknown"])
async def test_finish_reasons_of_each_wire_map_to_our_names(
    wire: Wire, http: HttpClient, finish: Finish
) -> None:
    async with open_provider(otherwise=Reply(finish=finish)) as provider:
        found = finish_of(await ask_model(wire.model(http, provider.url)))
    assert found is not None
    assert found.finish == finish


@pytest.mark.spec("C-01")
async def test_a_stream_without_a_finish_reason_yields_no_finish(wire: Wire, http: HttpClient) -> None:
    async with open_provider(otherwise=Reply(text="half", finish=None)) as provider:
        events = await ask_model(wire.model(http, provider.url))
    assert text_of(events) == "half"
    assert finish_of(events) is None
    assert StreamFinish() not in events


@pytest.mark.spec("C-07")
async def test_token_usage_is_read_alike_on_every_wire(wire: Wire, http: HttpClient) -> None:
    usage = TokenUsage(input=100, output=40, reasoning=15, cache_read=30, cache_write=7)
    async with open_provider(otherwise=Reply(usage=usage)) as provider:
        found = finish_of(await ask_model(wire.model(http, provider.url)))
    assert found is not None
    assert found.tokens == Tokens(
        input=100, output=40, reasoning=15, cache=CacheTokens(read=30, write=7), total=192
    )


async def test_without_usage_the_tokens_are_unknown(wire: Wire, http: HttpClient) -> None:
    async with open_provider(otherwise=Reply(usage=None)) as provider:
        found = finish_of(await ask_model(wire.model(http, provider.url)))
    assert found == StepFinish("stop")


async def test_several_calls_are_ready_in_order_and_a_broken_one_is_not(wire: Wire, http: HttpClient) -> None:
    tools = (
        ToolUse("ls", {}, "a"),
        ToolUse("read", id="b", raw='{"path": '),
        ToolUse("read", {"path": "x"}, "c"),
    )
    async with open_provider(otherwise=Reply(text="", tools=tools)) as provider:
        events = await ask_model(wire.model(http, provider.url))
    assert [event.id for event in events if isinstance(event, ToolCallStart)] == ["a", "b", "c"]
    assert [event for event in events if isinstance(event, ToolCallReady)] == [
        ToolCallReady("a", "ls", {}),
        ToolCallReady("c", "read", {"path": "x"}),
    ]
    found = finish_of(events)
    assert found is not None
    assert found.finish == "tool-calls"
