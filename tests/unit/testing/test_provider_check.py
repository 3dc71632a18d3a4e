"""What the real providers refuse, the local one refuses too."""

from typing import Any

import aiohttp
import pytest

from asyncagents.testing.provider import open_provider
from asyncagents.testing.provider_check import anthropic_refusal, openai_refusal

USER = {"role": "user", "content": "hi"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}, {"id": "b"}]}
USED = {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}, {"type": "tool_use", "id": "b"}]}
SPOKEN = {"type": "text", "text": "hello"}
OLD, NEW = {"anthropic-version": "2023-06-01"}, {"anthropic-version": "2026-10-21"}


def tool(id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": "done"}


def called(name: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": name}}]}


def said(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def results(*ids: str, text: str = "") -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "tool_result", "tool_use_id": used} for used in ids]
    return {"role": "user", "content": [*blocks, *([{"type": "text", "text": text}] if text else [])]}


def chat(*messages: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages)} | rest


def message(*messages: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 1, "messages": list(messages)} | rest


@pytest.mark.parametrize(
    "body",
    [
        chat(USER),
        chat({"role": "system", "content": "be kind"}, USER, stream=True, stream_options={}),
        chat(USER, CALLED, tool("b"), tool("a")),
        chat(USER, called("read_file-2"), tool("a")),
        chat(USER, CALLED, tool("a"), tool("b"), USER, USER),
        chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}),
    ],
)
def test_openai_accepts_valid_requests(body: dict[str, Any]) -> None:
    assert openai_refusal(body, {}) is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (chat(), "length >= 1"),
        (chat(USER, model=""), "model"),
        ({"messages": [USER]}, "model"),
        (chat({"role": "human", "content": "hi"}), "human"),
        (chat(USER, tools=[]), "tools"),
        (chat(USER, stream_options={"include_usage": True}), "stream"),
        (chat(USER, CALLED), "no tool messages for a, b"),
        (chat(USER, CALLED, tool("a"), USER, tool("b")), "before the tool messages for b"),
        (chat(USER, CALLED, tool("a"), tool("a"), tool("b")), "answers a"),
        (chat(USER, tool("a")), "answers a"),
        (chat(USER, called("a b"), tool("a")), "matching"),
        (chat(USER, called(""), tool("a")), "matching"),
        (chat(USER, tools=[{"type": "function", "function": {"name": "a.b"}}]), "matching"),
    ],
)
def test_openai_refuses_invalid_requests(body: dict[str, Any], why: str) -> None:
    assert why in (openai_refusal(body, {}) or "")


@pytest.mark.parametrize(
    "body",
    [
        message(USER),
        message(USER, USER, temperature=0.5),
        message(USER, USED, results("b", "a")),
        message(USER, USED, results("a"), results("b", text="go on")),
        message(USER, said({"type": "thinking", "signature": "s"}, SPOKEN), USER),
        message(USER, said({"type": "tool_use", "id": "a", "name": "ls"}), results("a")),
        message(USER, tools=[{"name": "a" * 64}]),
    ],
)
def test_anthropic_accepts_valid_requests(body: dict[str, Any]) -> None:
    assert anthropic_refusal(body, OLD) is None


@pytest.mark.parametrize(
    ("body", "headers", "why"),
    [
        (message(USER), {}, "anthropic-version"),
        (message(), OLD, "messages"),
        ({"model": "m", "messages": [USER]}, OLD, "max_tokens"),
        (message(USER, max_tokens=0), OLD, "max_tokens"),
        (message(USER, tool("a")), OLD, "tool"),
        (message(USER, temperature=1), NEW, "temperature"),
        (message(USER, top_k=1), NEW, "top_k"),
        (message({"role": "user", "content": ""}), OLD, "length >= 1"),
        (message({"role": "user", "content": []}), OLD, "length >= 1"),
        (message({"role": "user", "content": [{"type": "text", "text": ""}]}), OLD, "non-empty"),
        (message(USER, said({"type": "thinking"}, SPOKEN), USER), OLD, "signature"),
        (message(USER, said(SPOKEN, {"type": "thinking", "signature": "s"}), USER), OLD, "final block"),
        (message(USER, said(SPOKEN, {"type": "redacted_thinking"}), USER), OLD, "final block"),
        (message(USER, said(SPOKEN)), OLD, "must end with a user message"),
        (message(USER, said({"type": "tool_use", "id": "a", "name": "a.b"}), results("a")), OLD, "matching"),
        (message(USER, said({"type": "tool_use", "id": "a", "name": ""}), results("a")), OLD, "matching"),
        (message(USER, tools=[{"name": "a" * 65}]), OLD, "matching"),
        (message(USER, USED), OLD, "tool_use without tool_result"),
        (message(USER, USED, results("a")), OLD, "right after it: b"),
        (message(USER, USED, USER, results("a", "b")), OLD, "before all other blocks"),
        (message(USER, results("a")), OLD, "tool_result without tool_use"),
    ],
)
def test_anthropic_refuses_invalid_requests(body: dict[str, Any], headers: dict[str, str], why: str) -> None:
    assert why in (anthropic_refusal(body, headers) or "")


@pytest.mark.parametrize("strict", [True, False])
async def test_a_strict_provider_answers_a_wrong_request_with_400(strict: bool) -> None:
    async with open_provider(strict=strict) as provider, aiohttp.ClientSession() as session:
        async with session.post(f"{provider.url}/v1/chat/completions", json=chat(USER, tool("a"))) as answer:
            assert answer.status == (400 if strict else 200)
            body = await answer.json()
        assert ("error" in body) is strict
