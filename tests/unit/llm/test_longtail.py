"""The long tail: the same contract as our own adapters, through pydantic-ai and real HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic_ai.messages import (
    ModelRequest,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    ThinkingPart,
    ToolCallPart,
    ToolCallPartDelta,
)

from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.failure import APIError, ContextOverflowError, ProviderAuthError
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.domain.shape import encode
from asyncagents.llm.http.answer_size import MOST_ARGUMENTS, MOST_CALLS, MOST_CHARACTERS
from asyncagents.llm.http.request import Endpoint
from asyncagents.llm.model import (
    Attachment,
    ChatRequest,
    ModelEvent,
    ModelTurn,
    Options,
    ReasoningDelta,
    ReasoningEnd,
    RequestMessage,
    StepFinish,
    StepStart,
    StreamError,
    StreamFinish,
    StreamStart,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingBlock,
    ToolCallBlock,
    ToolCallReady,
    ToolCallStart,
    ToolSpec,
    ToolTurn,
    UserTurn,
)
from asyncagents.llm.pydantic_ai.adapter import PydanticAiModel
from asyncagents.llm.pydantic_ai.build import build_model, build_provider, build_settings
from asyncagents.llm.pydantic_ai.events import PydanticAiReader
from asyncagents.llm.pydantic_ai.request import build_messages
from asyncagents.testing.provider import Provider, Reply, TokenUsage, ToolUse, open_provider
from tests.support.llm.conversation import ODD_NAMES

KEY = "sk-very-secret-0123456789"
MODEL = ModelRef(provider_id="tail", model_id="local")
WEATHER = ToolSpec(
    "weather", "Tells the weather.", {"type": "object", "properties": {"at": {"type": "string"}}}
)


def ask(*told: RequestMessage, **given: Any) -> ChatRequest:
    return ChatRequest(**{"model": MODEL, "messages": told, **given})


@asynccontextmanager
async def tail_of(
    provider: Provider, *, kind: str = "openai-chat", idle_seconds: float = 30
) -> AsyncIterator[PydanticAiModel]:
    endpoint = Endpoint(
        provider_id="tail",
        base_url=f"{provider.url}/v1",
        api_key=Secret(KEY),
        headers={"x-team": "blue"},
        first_seconds=idle_seconds,
        idle_seconds=idle_seconds,
    )
    tail = PydanticAiModel(kind, endpoint, {})
    try:
        yield tail
    finally:
        await tail.close()


async def events_of(reply: Reply, request: ChatRequest | None = None, **given: Any) -> list[ModelEvent]:
    async with open_provider(otherwise=reply) as provider, tail_of(provider, **given) as tail:
        return [event async for event in tail.stream(request or ask(UserTurn("Hi.")))]


async def failure_of(reply: Reply, **given: Any) -> StreamError:
    events = await events_of(reply, **given)
    assert isinstance(events[-1], StreamError)
    return events[-1]


async def seen_by(request: ChatRequest) -> dict[str, Any]:
    async with open_provider() as provider, tail_of(provider) as tail:
        events = [event async for event in tail.stream(request)]
        assert isinstance(events[-1], StreamFinish)
        return provider.requests[0].body


async def test_text_comes_as_it_is_written() -> None:
    assert await events_of(Reply(text="Hello, you.", chunks=2)) == [
        StreamStart(),
        StepStart(),
        TextStart("text-1"),
        TextDelta("text-1", "Hello,"),
        TextDelta("text-1", " you."),
        TextEnd("text-1"),
        StepFinish(
            "stop", Tokens(input=10, output=5, reasoning=0, cache=CacheTokens(read=0, write=0), total=15)
        ),
        StreamFinish(),
    ]


async def test_reasoning_is_separate_from_text_and_has_metadata_of_its_model() -> None:
    events = await events_of(Reply(text="42.", reasoning="Let me see.", chunks=2))
    thoughts = [event.text for event in events if isinstance(event, ReasoningDelta)]
    [end] = [event for event in events if isinstance(event, ReasoningEnd)]
    assert "".join(thoughts) == "Let me see."
    assert end.metadata == {"longtail": {"provider": "openai", "model": "local", "id": "reasoning_content"}}
    assert [event for event in events if isinstance(event, TextStart)]


async def test_calls_are_announced_and_come_with_their_whole_input() -> None:
    tools = (ToolUse("weather", {"at": "Rome"}, id="c1"), ToolUse("weather", {}, id="c2"))
    events = await events_of(Reply(text="", tools=tools), ask(UserTurn("Hi."), tools=(WEATHER,)))
    assert [event for event in events if isinstance(event, ToolCallStart | ToolCallReady)] == [
        ToolCallStart("c1", "weather"),
        ToolCallReady("c1", "weather", {"at": "Rome"}),
        ToolCallStart("c2", "weather"),
        ToolCallReady("c2", "weather", {}),
    ]


async def test_a_call_with_broken_arguments_is_never_ready() -> None:
    events = await events_of(Reply(tools=(ToolUse("weather", raw='{"at": "Ro'),)))
    assert [event for event in events if isinstance(event, ToolCallStart)]
    assert not [event for event in events if isinstance(event, ToolCallReady)]


def test_halves_of_characters_and_missing_names_are_replaced() -> None:
    """The SDKs read JSON less strictly than we do."""
    reader = PydanticAiReader("m")
    odd = ToolCallPart("we\ud83d", {"at": "\udc80"}, "c\ud83d")
    thought = ThinkingPart(
        "hm", signature="s\ud83d", provider_name="openai", provider_details={"a": ["\udc80"]}
    )
    events = [
        *reader.read(PartStartEvent(index=0, part=odd)),
        *reader.read(PartEndEvent(index=0, part=odd)),
        *reader.read(PartStartEvent(index=1, part=thought)),
        *reader.read(PartEndEvent(index=1, part=thought)),
        *reader.read(PartStartEvent(index=2, part=ToolCallPart("", {}, "c2"))),
    ]
    assert encode(events)
    assert events[:2] == [ToolCallStart("c?", "we?"), ToolCallReady("c?", "we?", {"at": "?"})]
    assert events[-1] == ToolCallStart("c2", "unknown")


def test_an_invalid_tool_name_is_replaced_by_one_that_the_wire_accepts() -> None:
    for tool, name in ODD_NAMES.items():
        _, step, result = build_messages(
            ask(UserTurn("Hi."), ModelTurn((ToolCallBlock("a", tool, {}),)), ToolTurn("a", tool, "no"))
        )
        assert [part.tool_name for part in (*step.parts, *result.parts) if hasattr(part, "tool_name")] == [
            name,
            name,
        ]


def test_arguments_may_come_as_an_object_in_pieces() -> None:
    """As Google and others send them; no provider at hand streams objects over HTTP."""
    reader = PydanticAiReader("m")
    part = ToolCallPart("weather", {"at": "Rome"}, "c1")
    delta = ToolCallPartDelta(args_delta={"on": "Monday"})
    whole = delta.apply(part)
    events = [
        *reader.read(PartStartEvent(index=0, part=part)),
        *reader.read(PartDeltaEvent(index=0, delta=delta)),
        *reader.read(PartEndEvent(index=0, part=whole)),
    ]
    assert events == [
        ToolCallStart("c1", "weather"),
        ToolCallReady("c1", "weather", {"at": "Rome", "on": "Monday"}),
    ]


@pytest.mark.spec("C-07")
async def test_the_five_kinds_of_tokens_are_counted_separately() -> None:
    events = await events_of(Reply(usage=TokenUsage(input=100, output=20, reasoning=7, cache_read=40)))
    [finish] = [event for event in events if isinstance(event, StepFinish)]
    cache = CacheTokens(read=40, write=0)
    assert finish.tokens == Tokens(input=100, output=20, reasoning=7, cache=cache, total=167)


@pytest.mark.spec("C-01")
@pytest.mark.parametrize(
    ("said", "finish"),
    [
        ("stop", "stop"),
        ("tool-calls", "tool-calls"),
        ("length", "length"),
        ("content-filter", "content-filter"),
        ("never heard of", "unknown"),
    ],
)
async def test_a_finish_reason_has_one_of_our_names(said: str, finish: str) -> None:
    events = await events_of(Reply(finish=said))
    assert [event.finish for event in events if isinstance(event, StepFinish)] == [finish]


@pytest.mark.spec("C-01")
async def test_a_stream_without_a_finish_yields_no_finish_event() -> None:
    events = await events_of(Reply(finish=None))
    assert not [event for event in events if isinstance(event, StepFinish | StreamFinish | StreamError)]


async def test_a_rate_limit_keeps_its_retry_after_and_is_requested_once() -> None:
    limited = Reply(status=429, error="Slow down.", headers={"retry-after": "7"})
    async with open_provider(otherwise=limited) as provider, tail_of(provider) as tail:
        [error] = [event async for event in tail.stream(ask(UserTurn("Hi.")))]
        assert provider.asked == 1
    assert isinstance(error, StreamError)
    assert error.retry_after == 7
    assert isinstance(error.failure, APIError)
    assert error.failure.data.status_code == 429
    assert error.failure.data.is_retryable is True


async def test_a_wait_in_milliseconds_overrides_one_in_seconds() -> None:
    headers = {"retry-after": "7", "retry-after-ms": "6500"}
    assert (await failure_of(Reply(status=429, headers=headers))).retry_after == 6.5


async def test_a_server_error_is_retryable_and_not_retried_by_the_library() -> None:
    async with (
        open_provider(otherwise=Reply(status=500, error="Boom.")) as provider,
        tail_of(provider) as tail,
    ):
        [error] = [event async for event in tail.stream(ask(UserTurn("Hi.")))]
        assert provider.asked == 1
    assert isinstance(error, StreamError)
    assert isinstance(error.failure, APIError)
    assert error.failure.data.is_retryable


async def test_a_refused_key_is_an_auth_error_that_does_not_show_it() -> None:
    error = await failure_of(Reply(status=401, error=f"Incorrect API key provided: {KEY}"))
    assert isinstance(error.failure, ProviderAuthError)
    assert error.failure.data.provider_id == "tail"
    assert KEY not in str(error)


async def test_an_overflow_of_the_context_is_recognised() -> None:
    message = "This model's maximum context length is 8192 tokens."
    error = await failure_of(Reply(status=400, error=message, error_code="context_length_exceeded"))
    assert isinstance(error.failure, ContextOverflowError)


async def test_a_request_that_is_wrong_is_not_sent_again() -> None:
    error = await failure_of(Reply(status=400, error="No such field."))
    assert isinstance(error.failure, APIError)
    assert not error.failure.data.is_retryable


async def test_an_error_inside_the_stream_ends_it() -> None:
    events = await events_of(
        Reply(text="Well", error_in_stream=True, error="Overloaded.", error_type="server_error")
    )
    assert TextDelta("text-1", "Well") in events
    assert isinstance(events[-1], StreamError)
    assert isinstance(events[-1].failure, APIError)
    assert events[-1].failure.data.is_retryable
    assert not [event for event in events if isinstance(event, StepFinish)]


@pytest.mark.parametrize(
    ("reply", "much"),
    [
        (
            Reply(text="", tools=tuple(ToolUse("weather", {"n": n}) for n in range(MOST_CALLS + 1))),
            "512 calls",
        ),
        (Reply(text="", tools=(ToolUse("weather", {"at": "x" * MOST_ARGUMENTS}),)), "4 Mi characters of arg"),
        (Reply(text="x" * (MOST_CHARACTERS + 64), chunks=64), "16 Mi characters"),
    ],
    ids=["calls", "arguments", "text"],
)
async def test_an_answer_that_is_too_large_is_cut_off(reply: Reply, much: str) -> None:
    error = await failure_of(reply)
    assert isinstance(error.failure, APIError)
    assert f"tail sent more than {much}" in error.failure.data.message
    assert not error.failure.data.is_retryable


@pytest.mark.parametrize("cut_at", [-1, 0, 400])
async def test_a_cut_connection_ends_in_an_error_that_may_be_tried_again(cut_at: int) -> None:
    error = await failure_of(Reply(text="word " * 200, chunks=50, cut_at=cut_at))
    assert isinstance(error.failure, APIError)
    assert error.failure.data.is_retryable


async def test_a_refused_connection_is_an_error_that_may_be_tried_again() -> None:
    async with open_provider() as provider:
        url = provider.url
    tail = PydanticAiModel("openai-chat", Endpoint(provider_id="tail", base_url=url, api_key=Secret(KEY)), {})
    [error] = [event async for event in tail.stream(ask(UserTurn("Hi.")))]
    await tail.close()
    assert isinstance(error, StreamError)
    assert isinstance(error.failure, APIError)
    assert error.failure.data.is_retryable
    assert error.failure.data.message == f"{url} refuses connections: is the model server running?"
    assert error.retries == 1


@pytest.mark.parametrize("hang_at", [-1, 700])
async def test_a_silent_stream_is_ended(hang_at: int) -> None:
    error = await failure_of(Reply(text="word " * 99, chunks=9, hang_at=hang_at), idle_seconds=0.3)
    assert isinstance(error.failure, APIError)
    assert "said nothing for 0.3 seconds" in error.failure.data.message
    assert error.failure.data.is_retryable


async def test_closing_the_stream_ends_the_request() -> None:
    endless = Reply(text="word " * 99, chunks=9, hang_at=900)
    async with open_provider(otherwise=endless) as provider, tail_of(provider) as tail:
        async with aclosing(tail.stream(ask(UserTurn("Hi.")))) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        await provider.wait_for(lambda: provider.disconnects == 1)


async def test_cancelling_the_reading_task_ends_the_request() -> None:
    async def read() -> None:
        async for _ in tail.stream(ask(UserTurn("Hi."))):
            pass

    async with open_provider(otherwise=Reply(hang_at=-1)) as provider, tail_of(provider) as tail:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read())
            await provider.wait_requests(1)
            reading.cancel()
        await provider.wait_for(lambda: provider.disconnects == 1)


async def test_a_whole_conversation_reaches_the_provider_in_order() -> None:
    png = Attachment("image/png", "data:image/png;base64,aGVsbG8=", "a.png")
    body = await seen_by(
        ask(
            UserTurn("Look.", (png,)),
            ModelTurn(
                (
                    TextBlock("I call two."),
                    ToolCallBlock("c1", "weather", {"at": "Rome"}),
                    ToolCallBlock("c2", "weather", {}),
                )
            ),
            ToolTurn("c1", "weather", "Sunny."),
            ToolTurn("c2", "weather", "No place was given.", failed=True),
            UserTurn("Go on."),
            tools=(WEATHER,),
            system="Be brief.",
        )
    )
    system, look, called, sunny, no_place, go_on = body["messages"]
    assert system["role"] == "system"
    assert system["content"] == "Be brief."
    assert [part["type"] for part in look["content"]] == ["text", "image_url"]
    assert look["content"][1]["image_url"]["url"] == png.url
    assert called["content"] == "I call two."
    assert [call["id"] for call in called["tool_calls"]] == ["c1", "c2"]
    assert called["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"at":"Rome"}'}
    assert sunny["tool_call_id"] == "c1"
    assert sunny["content"] == "Sunny."
    assert no_place["tool_call_id"] == "c2"
    assert ("No place was given." in no_place["content"]) is True
    assert go_on == {"role": "user", "content": "Go on."}
    assert body["tools"][0]["function"]["parameters"] == WEATHER.parameters


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ("weather", "required"),  # the only one that is offered then
        (None, "auto"),
    ],
)
async def test_a_tool_is_forced_unless_the_model_thinks(choice: str | None, sent: Any) -> None:
    request = ask(UserTurn("Hi."), tools=(WEATHER,), tool_choice=choice)
    assert (await seen_by(request)).get("tool_choice", "auto") == sent
    thinks = replace(request, options=Options(body={"reasoningEffort": "high"}))
    assert (await seen_by(thinks)).get("tool_choice", "auto") == "auto"


async def test_a_request_contains_thoughts_of_its_own_model_alone() -> None:
    own = {"longtail": {"provider": "openai", "model": "local", "id": "reasoning_content"}}
    other = {"longtail": {"provider": "openai", "model": "another", "id": "reasoning_content"}}
    foreign = {"anthropic": {"signature": "x", "model": "local"}}
    body = await seen_by(
        ask(
            UserTurn("Hi."),
            ModelTurn(
                (
                    ThinkingBlock("mine", own),
                    ThinkingBlock("theirs", other),
                    ThinkingBlock("far", foreign),
                    TextBlock("Yes."),
                )
            ),
            UserTurn("Why?"),
        )
    )
    said = body["messages"][1]
    assert said["reasoning_content"] == "mine"
    assert "theirs" not in str(body)
    assert "far" not in str(body)


def test_a_step_that_is_nothing_but_thoughts_is_left_out() -> None:
    own = {"longtail": {"provider": "openai", "model": "local", "id": "reasoning_content"}}
    told = build_messages(ask(UserTurn("Hi."), ModelTurn((ThinkingBlock("hm", own),)), UserTurn("Well?")))
    assert [type(message) for message in told] == [ModelRequest, ModelRequest]


async def test_options_and_headers_reach_the_provider() -> None:
    options = Options(
        temperature=0.5, top_p=0.9, max_output=77, body={"seed": 3, "stopSequences": ["END"], "topK": None}
    )
    async with open_provider() as provider, tail_of(provider) as tail:
        async for _ in tail.stream(ask(UserTurn("Hi."), options=options)):
            pass
        seen = provider.requests[0]
    assert seen.body["temperature"] == 0.5
    assert seen.body["top_p"] == 0.9
    assert 77 in (seen.body.get("max_tokens"), seen.body.get("max_completion_tokens"))
    assert seen.body["seed"] == 3
    assert seen.body["stop"] == ["END"]
    assert seen.headers["x-team"] == "blue"
    assert seen.headers["authorization"] == f"Bearer {KEY}"


def test_settings_that_a_provider_does_not_take_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = Endpoint(provider_id="tail", base_url="", api_key=Secret(KEY))
    provider = build_provider("cerebras", endpoint, {})
    model = build_model("cerebras", "gpt-oss-120b", provider)
    given = build_settings(
        "cerebras", model, ask(options=Options(body={"odd": 1, "reasoningEffort": "low"})), {}
    )
    assert given == {"max_retries": 0, "thinking": "low"}
    assert "odd" in caplog.text


async def test_a_provider_that_cannot_be_made_is_an_error_and_no_exception() -> None:
    tail = PydanticAiModel("no-such-provider", Endpoint(provider_id="tail", base_url=""), {})
    [error] = [event async for event in tail.stream(ask(UserTurn("Hi.")))]
    await tail.close()
    assert isinstance(error, StreamError)
    assert isinstance(error.failure, APIError)
    assert not error.failure.data.is_retryable


@pytest.mark.spec("X-04")
async def test_files_of_a_result_reach_the_provider_after_all_results() -> None:
    png = Attachment("image/png", "data:image/png;base64,aGVsbG8=", "a.png")
    calls = ModelTurn((ToolCallBlock("c1", "weather", {}), ToolCallBlock("c2", "weather", {})))
    body = await seen_by(
        ask(
            UserTurn("Look."),
            calls,
            ToolTurn("c1", "weather", "[a map]", files=(png,)),
            ToolTurn("c2", "weather", "Sunny."),
            tools=(WEATHER,),
        )
    )
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant", "tool", "tool", "user"]
    assert "[a map]" in body["messages"][2]["content"]
    shown = body["messages"][-1]["content"]
    assert [part["image_url"]["url"] for part in shown if part["type"] == "image_url"] == [png.url]
