"""What a provider receives: the path, the key, and a body that it takes."""

import json
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.anthropic.adapter import AnthropicMessages
from asyncagents.llm.http.client import HttpClient
from asyncagents.llm.http.request import Endpoint, build_request, join_url
from asyncagents.llm.model import (
    ChatRequest,
    ModelTurn,
    Options,
    ReasoningEnd,
    RequestMessage,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ToolCallBlock,
    ToolCallReady,
    ToolTurn,
    UserTurn,
)
from asyncagents.llm.openai.adapter import OpenAIChat
from asyncagents.testing.provider import Reply, ToolUse, open_provider
from tests.support.llm.conversation import CONVERSATION, SYSTEM
from tests.support.llm.conversation import TOOLS as ALL_TOOLS
from tests.support.llm.wire import (
    ANTHROPIC,
    KEY,
    OPENAI,
    TOOLS,
    Wire,
    ask_model,
    failure_of,
    finish_of,
    request,
)

GOLDEN = Path(__file__).parents[2] / "unit" / "llm" / "golden"


async def test_the_key_goes_where_the_wire_wants_it_and_nowhere_else(wire: Wire, http: HttpClient) -> None:
    async with open_provider(key=KEY) as provider:
        assert finish_of(await ask_model(wire.model(http, provider.url))) is not None
        (seen,) = provider.requests
    named = {"openai": ("authorization", f"Bearer {KEY}"), "anthropic": ("x-api-key", KEY)}[wire.name]
    assert [(name, value) for name, value in seen.headers.items() if KEY in value] == [named]
    assert seen.path == wire.path
    assert KEY not in json.dumps(seen.body)
    assert seen.headers["content-type"] == "application/json"
    assert "cookie" not in seen.headers


def test_a_request_that_is_printed_shows_no_key() -> None:
    endpoint = Endpoint(provider_id="local", base_url="https://me:hush@a.test/v1?k=hush", api_key=Secret(KEY))
    made = build_request(
        endpoint, request(), join_url(endpoint.base_url, "/x"), headers={"x-api-key": KEY}, write=dict
    )
    assert repr(made) == "ProviderRequest(https://a.test/v1/x)"
    assert repr(endpoint) == "Endpoint('local', 'https://a.test/v1')"
    assert KEY not in repr(made.target)


async def test_whitespace_around_a_key_is_stripped(wire: Wire, http: HttpClient) -> None:
    async with open_provider(key=KEY) as provider:
        model = wire.model(http, provider.url, api_key=Secret(f" {KEY}\n"))
        assert finish_of(await ask_model(model)) is not None


async def test_the_operators_headers_win_over_the_wires(wire: Wire, http: HttpClient) -> None:
    headers = {"X-Team": "blue", "Authorization": "Bearer other", "X-Api-Key": "other", "User-Agent": "us"}
    async with open_provider() as provider:
        await ask_model(wire.model(http, provider.url, headers=headers))
        (seen,) = provider.requests
    assert seen.headers["x-team"] == "blue"
    assert seen.headers["user-agent"] == "us"
    assert not any(KEY in value for value in seen.headers.values())


async def test_without_a_key_none_is_sent(wire: Wire, http: HttpClient) -> None:
    async with open_provider() as provider:
        assert finish_of(await ask_model(wire.model(http, provider.url, api_key=None))) is not None
        (seen,) = provider.requests
    assert not {"authorization", "x-api-key"} & set(seen.headers)


@pytest.mark.parametrize("base", ["/v1", "/v1/", "/v1?tenant=7", "", "/"])
async def test_anthropics_base_may_leave_out_its_version(http: HttpClient, base: str) -> None:
    async with open_provider() as provider:
        model = AnthropicMessages(http, Endpoint(provider_id="local", base_url=provider.url + base))
        assert finish_of(await ask_model(model)) is not None


@pytest.mark.parametrize("base", ["/v1", "/v1/", "/v1?api-version=1"])
async def test_a_base_may_end_in_a_slash_and_have_a_query(http: HttpClient, base: str) -> None:
    async with open_provider() as provider:
        model = OpenAIChat(http, Endpoint(provider_id="local", base_url=provider.url + base))
        assert finish_of(await ask_model(model)) is not None


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC], ids=lambda wire: wire.name)
async def test_a_strict_provider_accepts_a_request_with_every_kind_of_block(
    wire: Wire, http: HttpClient
) -> None:
    golden = json.loads((GOLDEN / f"{wire.name}.json").read_text())
    extra: dict[str, Any] = {"seed": 7} if wire.name == "openai" else {"metadata": {"user_id": "u"}}
    whole = ChatRequest(
        model=ModelRef(provider_id="local", model_id="sage-1"),
        messages=CONVERSATION,
        tools=ALL_TOOLS,
        system=SYSTEM,
        options=Options(temperature=0.2, top_p=0.9, max_output=500, body=extra),
    )
    async with open_provider() as provider:
        events = [event async for event in wire.model(http, provider.url).stream(whole)]
        assert finish_of(events) is not None, failure_of(events)
        assert provider.requests[0].body == golden


async def test_a_streamed_step_is_sent_back_in_the_next_request(wire: Wire, http: HttpClient) -> None:
    """Text, thoughts and calls of an answer become the history of the next request, as they were."""
    replies = [
        Reply(text="Let me see", reasoning="Hm", tools=(ToolUse("read", {"path": "a"}, "call_1"),)),
        Reply(),
    ]
    async with open_provider({"hi": replies}) as provider:
        model = wire.model(http, provider.url)
        first = await ask_model(model)
        (thought,) = (event for event in first if isinstance(event, ReasoningEnd))
        (call,) = (event for event in first if isinstance(event, ToolCallReady))
        step = ModelTurn(
            (
                ThinkingBlock("Hm", thought.metadata),
                TextBlock("Let me see"),
                ToolCallBlock(call.id, call.tool, call.input),
            )
        )
        history: list[RequestMessage] = [UserTurn("hi"), step, ToolTurn(call.id, call.tool, "contents")]
        again = ChatRequest(model=request().model, messages=history, tools=TOOLS)
        second = [event async for event in model.stream(again)]
        assert finish_of(second) is not None, failure_of(second)
        assert any(isinstance(event, TextDelta) for event in second)
        told = json.dumps(provider.requests[1].body["messages"])
    for word in ("Hm", "Let me see", "call_1", "contents"):
        assert word in told
