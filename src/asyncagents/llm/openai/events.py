"""Shapes of OpenAI's stream chunks, with finish reasons and token usage."""

from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.llm.model import Finish

DONE = b"[DONE]"

_FINISH: dict[str, Finish] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "tool_use": "tool-calls",
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "error": "error",
}


class FunctionDelta(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolDelta(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class ChunkDelta(Struct, gc=False):
    content: str | list[Any] | None = None
    tool_calls: list[ToolDelta] | None = None
    function_call: FunctionDelta | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None


class ChunkChoice(Struct, gc=False):
    delta: ChunkDelta | None = None
    finish_reason: str | None = None


class Chunk(Struct, gc=False):
    choices: list[ChunkChoice] | None = None
    usage: Any = None
    error: Any = None
    object: str | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode


def finish_of(reason: str) -> Finish:
    return _FINISH.get(reason, "unknown")


def tokens_of(usage: Any) -> Tokens | None:
    """Convert the usage: the API includes cached tokens in the prompt and reasoning in the completion."""
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    total = _count(usage, "total_tokens") or prompt + completion
    if not total:
        return None
    details = usage.get("prompt_tokens_details")
    read = _count(details, "cached_tokens") or _count(usage, "prompt_cache_hit_tokens")  # DeepSeek's
    write = _count(details, "cache_write_tokens")  # OpenRouter's
    reasoning = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    # xAI excludes reasoning from the completion, which shows in its total.
    inside = total < prompt + completion + reasoning
    return Tokens(
        input=max(0, prompt - read - write),
        output=max(0, completion - reasoning if inside else completion),
        reasoning=reasoning,
        cache=CacheTokens(read=read, write=write),
        total=total,
    )


def _count(of: Any, name: str) -> int:
    value = of.get(name) if isinstance(of, dict) else None
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**53 else 0


def reasoning_in(delta: ChunkDelta) -> str:
    """Return the reasoning text: DeepSeek and vLLM have one field for it, OpenRouter another, and a list."""
    if delta.reasoning_content or delta.reasoning:
        return delta.reasoning_content or delta.reasoning or ""
    return "".join(_texts(delta.reasoning_details or [], "text", "summary"))


def text_in(content: list[Any]) -> str:
    return "".join(_texts(content, "text"))


def thinking_in(content: list[Any]) -> str:
    """Return the thinking items that Mistral puts into the content."""
    thoughts = [item["thinking"] for item in content if isinstance(item, dict) and "thinking" in item]
    return "".join(text_in(thought) if isinstance(thought, list) else str(thought) for thought in thoughts)


def _texts(items: list[Any], *names: str) -> list[str]:
    found = [item.get(name) for item in items if isinstance(item, dict) for name in names]
    return [text for text in found if isinstance(text, str)]
