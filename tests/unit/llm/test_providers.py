"""The router: the right adapter with the right words, the cost of it, and a sentence where it cannot be."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import (
    Config,
    ModelConfig,
    ModelCost,
    ModelDeadlines,
    ModelLimit,
    ProviderConfig,
)
from asyncagents.config.secret import Secret
from asyncagents.domain.conversation.failure import APIError, ProviderAuthError
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.limits import DEFAULT_CONCURRENCY
from asyncagents.llm.model import (
    Attachment,
    ChatRequest,
    ModelEvent,
    ModelTurn,
    Options,
    StepFinish,
    StreamError,
    StreamFinish,
    TextDelta,
    ToolCallBlock,
    ToolSpec,
    ToolTurn,
    UserTurn,
)
from asyncagents.llm.providers import Providers, open_providers
from asyncagents.testing.provider import Provider, Reply, TokenUsage, open_provider
from tests.support.llm.raw_server import open_raw_server

KEY = Secret("sk-very-secret-0123456789")
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
OPENAI, ANTHROPIC = "@ai-sdk/openai-compatible", "@ai-sdk/anthropic"


def config(provider: dict[str, ProviderConfig] | None = None, **given: Any) -> Config:
    return Config(data_dir=Path("/nowhere"), provider=provider or {}, **given)


def ref(name: str, variant: str | None = None) -> ModelRef:
    provider_id, _, model_id = name.partition("/")
    return ModelRef(provider_id=provider_id, model_id=model_id, variant=variant)


def ask(name: str, *, variant: str | None = None, **given: Any) -> ChatRequest:
    return ChatRequest(**{"model": ref(name, variant), "messages": [UserTurn("Hi.")], **given})


async def events_of(providers: Providers, request: ChatRequest) -> list[ModelEvent]:
    return [event async for event in providers.stream(request)]


@asynccontextmanager
async def local(
    npm: str = OPENAI, reply: Reply | None = None, **given: Any
) -> AsyncIterator[tuple[Providers, Provider]]:
    """A provider named `local` behind the router."""
    async with open_provider(otherwise=reply or Reply()) as provider:
        entry = ProviderConfig(npm=npm, base_url=f"{provider.url}/v1", api_key=KEY, **given)
        async with open_providers(config({"local": entry})) as providers:
            yield providers, provider


async def body_of(request: ChatRequest, **given: Any) -> dict[str, Any]:
    async with local(**given) as (providers, provider):
        events = await events_of(providers, request)
        assert isinstance(events[-1], StreamFinish), events
        return provider.requests[0].body


@pytest.mark.parametrize(
    ("npm", "wire"),
    [
        (OPENAI, "openai"),
        (None, "openai"),
        ("@ai-sdk/groq", "openai"),
        ("@openrouter/ai-sdk-provider", "openai"),
        (ANTHROPIC, "anthropic"),
    ],
)
async def test_a_request_goes_over_the_wire_of_its_provider_under_the_models_own_name(
    npm: str, wire: str
) -> None:
    async with local(npm, models={"smart": ModelConfig(id="acme-1-large")}) as (providers, provider):
        events = await events_of(providers, ask("local/smart"))
        [seen] = provider.requests
    assert isinstance(events[-1], StreamFinish)
    assert seen.wire == wire
    assert seen.body["model"] == "acme-1-large"


async def test_one_adapter_serves_all_models_of_a_provider_unless_their_headers_differ() -> None:
    models = {"a": ModelConfig(), "b": ModelConfig(headers={"x-model": "b"})}
    async with local(models=models, headers={"x-team": "blue"}) as (providers, provider):
        for name in ("local/a", "local/b"):
            await events_of(providers, ask(name))
        first, second = (request.headers for request in provider.requests)
    assert first["x-team"] == "blue"
    assert first.get("x-model") is None
    assert second["x-team"] == "blue"
    assert second["x-model"] == "b"


async def test_options_of_request_variant_model_and_provider_win_in_this_order() -> None:
    model = ModelConfig(
        options={"b": "model", "c": "model", "d": "model", "deep": {"x": 1, "y": 1}},
        variants={"loud": {"c": "variant", "d": "variant", "deep": {"y": 2}}},
    )
    body = await body_of(
        ask("local/m", variant="loud", options=Options(body={"d": "request"})),
        options={"a": "provider", "b": "provider", "organization": "not for the body", "setCacheKey": True},
        models={"m": model},
    )
    assert body["a"] == "provider"
    assert body["b"] == "model"
    assert body["c"] == "variant"
    assert body["d"] == "request"
    assert body["deep"] == {"x": 1, "y": 2}
    assert not {"organization", "setCacheKey", "set_cache_key"} & set(body)


async def test_option_names_of_opencode_become_those_of_openai() -> None:
    options = {
        "reasoningEffort": "high",
        "textVerbosity": "low",
        "maxTokens": 500,
        "topP": 0.5,
        "temperature": 0.25,
        "reasoningSummary": "auto",
        "enable_thinking": True,
        "thinking": {"type": "enabled", "budgetTokens": 9},
    }
    body = await body_of(ask("local/m"), models={"m": ModelConfig(options=options)})
    assert body["reasoning_effort"] == "high"
    assert body["verbosity"] == "low"
    assert body["max_tokens"] == 500
    assert body["top_p"] == 0.5
    assert body["temperature"] == 0.25
    assert body["enable_thinking"] is True
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 9}
    assert not [name for name in body if name != name.lower()]


async def test_option_names_of_opencode_become_those_of_anthropic() -> None:
    options = {
        "thinking": {"type": "enabled", "budgetTokens": 4000},
        "topK": 5,
        "disableParallelToolUse": True,
    }
    model = ModelConfig(options=options, limit=ModelLimit(output=10_000))
    body = await body_of(
        ask("local/m", options=Options(temperature=0.5, max_output=7_000)), npm=ANTHROPIC, models={"m": model}
    )
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 4000}
    assert body["top_k"] == 5
    assert body["max_tokens"] == 10_000
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
    assert "temperature" not in body


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("claude-sonnet-4-5", {"thinking": {"type": "enabled", "budget_tokens": 16_000}}),
        ("claude-opus-4-5", {"output_config": {"effort": "high"}}),
        ("claude-opus-4-8", {"output_config": {"effort": "high"}, "thinking": {"type": "adaptive"}}),
    ],
)
async def test_an_effort_is_sent_to_each_claude_in_the_form_that_it_takes(
    model: str, sent: dict[str, Any]
) -> None:
    body = await body_of(ask(f"local/{model}", variant="high"), npm=ANTHROPIC)
    assert {name: body.get(name) for name in ("thinking", "output_config") if name in body} == sent


@pytest.mark.parametrize(
    ("limit", "asked", "sent"),
    [
        (None, None, None),
        (None, 50_000, 50_000),
        (5_000, None, 5_000),
        (100_000, None, 32_000),
        (100_000, 50_000, 50_000),
        (5_000, 50_000, 5_000),
    ],
)
async def test_the_output_is_limited_by_the_model_and_by_32000_unless_more_is_asked_for(
    limit: int | None, asked: int | None, sent: int | None
) -> None:
    models = {"m": ModelConfig(limit=ModelLimit(output=limit))}
    body = await body_of(ask("local/m", options=Options(max_output=asked)), models=models)
    assert body.get("max_tokens") == sent


async def test_a_model_of_the_catalog_brings_its_limit_along() -> None:
    body = await body_of(ask("local/claude-3-5-sonnet-20241022"), npm=ANTHROPIC)
    assert body["max_tokens"] == 8192


async def test_a_model_that_takes_no_temperature_is_sent_none() -> None:
    options = Options(temperature=0.5, top_p=0.5)
    refuses = await body_of(ask("local/m", options=options), models={"m": ModelConfig(temperature=False)})
    takes = await body_of(ask("local/m", options=options), models={"m": ModelConfig(temperature=True)})
    assert not {"temperature", "top_p"} & set(refuses)
    assert takes["temperature"] == 0.5
    assert takes["top_p"] == 0.5


async def test_tools_are_kept_from_a_model_that_cannot_call_them() -> None:
    request = ask("local/m", tools=(TOOL,))
    assert "tools" in await body_of(request, models={"m": ModelConfig()})
    assert "tools" not in await body_of(request, models={"m": ModelConfig(tool_call=False)})


PNG = Attachment("image/png", "data:image/png;base64,aGVsbG8=", "a.png")
PDF = Attachment("application/pdf", "data:application/pdf;base64,aGVsbG8=", "b.pdf")
TEXT = Attachment("text/plain", "data:text/plain;base64,aGVsbG8=", "c.txt")
VIDEO = Attachment("video/mp4", "data:video/mp4;base64,aGVsbG8=", "d.mp4")


@pytest.mark.spec("X-04")
async def test_files_of_a_result_that_a_model_cannot_take_are_named_in_it() -> None:
    step = ModelTurn((ToolCallBlock("a", "see", {}),))
    request = ask("local/m", messages=[UserTurn("Look."), step, ToolTurn("a", "see", "A map.", files=(PNG,))])
    blind = (await body_of(request, models={"m": ModelConfig(attachment=False)}))["messages"]
    assert blind[-1]["role"] == "tool"
    note = "[a.png (image/png) was left out: this model takes no images]"
    assert blind[-1]["content"] == f"A map.\n{note}"
    sees = (await body_of(request, models={"m": ModelConfig(attachment=True)}))["messages"]
    assert [part["type"] for part in sees[-1]["content"]] == ["text", "image_url"]


async def test_files_that_a_model_cannot_take_are_named_instead() -> None:
    request = ask("local/m", messages=[UserTurn("Look.", (PNG, PDF, TEXT, VIDEO))])
    [message] = (await body_of(request, models={"m": ModelConfig(attachment=False)}))["messages"]
    text, kept = message["content"]
    assert text["text"].splitlines() == [
        "Look.",
        "[a.png (image/png) was left out: this model takes no images]",
        "[b.pdf (application/pdf) was left out: this model takes no PDF]",
        "[d.mp4 (video/mp4) was left out: this model takes no such files]",
    ]
    assert "hello" in kept["text"]


@pytest.mark.parametrize("attachment", [True, None])
async def test_files_go_to_a_model_that_takes_them_or_of_which_nothing_is_known(
    attachment: bool | None,
) -> None:
    request = ask("local/m", messages=[UserTurn("Look.", (PNG, PDF))])
    [message] = (await body_of(request, models={"m": ModelConfig(attachment=attachment)}))["messages"]
    assert [part["type"] for part in message["content"]] == ["text", "image_url", "file"]


@pytest.mark.spec("C-07")
async def test_the_finish_of_a_step_contains_its_cost() -> None:
    reply = Reply(usage=TokenUsage(input=1_000, output=100, reasoning=100, cache_read=10_000))
    models = {"m": ModelConfig(cost=ModelCost(input=2, output=10, cache_read=0.2))}
    async with local(reply=reply, models=models) as (providers, _):
        events = await events_of(providers, ask("local/m"))
    [finish] = [event for event in events if isinstance(event, StepFinish)]
    assert finish.cost == pytest.approx((1_000 * 2 + 200 * 10 + 10_000 * 0.2) / 1_000_000)


async def test_a_step_of_a_model_without_a_price_costs_nothing() -> None:
    async with local() as (providers, _):
        events = await events_of(providers, ask("local/m"))
    assert [event.cost for event in events if isinstance(event, StepFinish)] == [0]


async def test_closing_the_stream_ends_the_request() -> None:
    async with local(reply=Reply(text="word " * 99, chunks=9, hang_at=900)) as (providers, provider):
        async with aclosing(providers.stream(ask("local/m"))) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        await provider.wait_for(lambda: provider.disconnects == 1)


async def test_a_provider_that_is_silent_for_its_timeout_is_given_up() -> None:
    deadlines = ModelDeadlines(first_seconds=0.2)
    async with local(reply=Reply(hang_at=-1), deadlines=deadlines) as (providers, _):
        [error] = await events_of(providers, ask("local/m"))
    assert isinstance(error, StreamError)
    assert isinstance(error.failure, APIError)
    assert error.failure.data.is_retryable


async def test_the_deadlines_of_a_model_go_before_those_of_its_provider() -> None:
    models = {"m": ModelConfig(deadlines=ModelDeadlines(first_seconds=60)), "n": ModelConfig()}
    deadlines = ModelDeadlines(first_seconds=0.2)
    reply = Reply(text="At last.", delay=1.0)
    async with local(reply=reply, deadlines=deadlines, models=models) as (providers, _):
        patient, hasty = [await events_of(providers, ask(f"local/{name}")) for name in ("m", "n")]
    assert not isinstance(patient[-1], StreamError)
    assert isinstance(hasty[-1], StreamError)


async def test_an_unknown_provider_is_an_error_that_is_not_tried_again() -> None:
    async with open_providers(config()) as providers:
        [error] = await events_of(providers, ask("antropic/claude-sonnet-4-5"))
    assert isinstance(error, StreamError)
    assert isinstance(error.failure, APIError)
    assert not error.failure.data.is_retryable
    assert "did you mean 'anthropic'?" in error.failure.data.message


async def test_a_missing_key_is_an_auth_error_that_names_the_variable() -> None:
    async with open_providers(config()) as providers:
        [error] = await events_of(providers, ask("anthropic/claude-sonnet-4-5"))
    assert isinstance(error, StreamError)
    assert isinstance(error.failure, ProviderAuthError)
    assert "set ANTHROPIC_API_KEY" in error.failure.data.message
    assert "provider.anthropic.options.apiKey" in error.failure.data.message


def test_listing_models_imports_none_of_the_large_libraries() -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from asyncagents.config.config import Config\n"
        "import asyncagents.llm.providers as providers\n"
        "roster = providers.Roster(Config(data_dir=Path('/nowhere')))\n"
        "assert len(roster.models()) > 100\n"
        "assert roster.default_model() is None\n"
        "heavy = {'pydantic_ai', 'pydantic', 'openai', 'anthropic', 'google.genai'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "gpt-6.1-sol",
    "status": "in_progress",
    "output": [],
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 8},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 30,
}
SAID = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
RESPONSES = [
    {"type": "response.created", "sequence_number": 0, "response": RESPONSE},
    {"type": "response.output_text.delta", "sequence_number": 1, "delta": "Hello.", "logprobs": [], **SAID},
    {
        "type": "response.completed",
        "sequence_number": 2,
        "response": {**RESPONSE, "status": "completed", "usage": USAGE},
    },
]


async def test_newer_models_of_openai_get_their_tools_over_the_responses_api() -> None:
    async with open_raw_server(RESPONSES) as server:
        openai = ProviderConfig(npm="@ai-sdk/openai", base_url=f"{server.url}/v1", api_key=KEY)
        async with open_providers(config({"openai": openai})) as providers:
            request = ask("openai/gpt-6.1-sol", variant="low", tools=(TOOL,))
            events = await events_of(providers, request)
    [seen] = server.requests
    assert seen.path == "/v1/responses"
    assert seen.body["model"] == "gpt-6.1-sol"
    assert seen.body["store"] is False
    assert seen.body["reasoning"]["effort"] == "low"
    assert seen.body["max_output_tokens"] == 32_000
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hello."]
    [finish] = [event for event in events if isinstance(event, StepFinish)]
    assert finish.finish == "stop"
    assert finish.cost == pytest.approx((12 * 2 + 8 * 0.1 + 10 * 10) / 1_000_000)


async def test_the_same_model_behind_a_compatible_server_is_asked_for_chat_completions() -> None:
    async with local() as (providers, provider):
        await events_of(providers, ask("local/gpt-6.1-sol", tools=(TOOL,)))
    assert provider.requests[0].path == "/v1/chat/completions"


async def test_the_config_limits_the_concurrent_requests_to_a_model() -> None:
    given = {"mine": ProviderConfig(base_url="http://mine.test", concurrency=3)}
    async with open_providers(config(given)) as providers:
        assert providers.concurrency(ref("mine/m")) == 3
        assert providers.concurrency(ref("anthropic/m")) == DEFAULT_CONCURRENCY
