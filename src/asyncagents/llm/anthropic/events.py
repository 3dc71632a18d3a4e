"""Shapes of Anthropic's stream events, with stop reasons and token usage."""

from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.llm.model import Finish

_FINISH: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "stop": "stop",
    "tool_use": "tool-calls",
    "tool_calls": "tool-calls",
    "max_tokens": "length",
    "length": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content-filter",
    "content_filter": "content-filter",
    "error": "error",
}


class AnthropicDelta(Struct, gc=False):
    """A delta of a block or of the message, depending on the type of its event."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class AnthropicBlock(Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class AnthropicMessage(Struct, gc=False):
    usage: Any = None


class AnthropicEvent(Struct, gc=False):
    """All event types in one shape, so that unknown types decode and are ignored."""

    type: str
    index: int = 0
    delta: AnthropicDelta | None = None
    content_block: AnthropicBlock | None = None
    message: AnthropicMessage | None = None
    usage: Any = None


decode_event = msgspec.json.Decoder(AnthropicEvent).decode


def finish_of(reason: str) -> Finish:
    return _FINISH.get(reason, "unknown")


class AnthropicUsage(Struct, frozen=True, kw_only=True):
    """Token counts so far; counts only grow, and an event may lack some of them."""

    input: int = 0
    output: int = 0
    thinking: int = 0
    read: int = 0
    write: int = 0

    def merge(self, usage: Any) -> "AnthropicUsage":
        if not isinstance(usage, dict):
            return self
        return replace(
            self,
            input=max(self.input, _count(usage, "input_tokens")),
            output=max(self.output, _count(usage, "output_tokens")),
            thinking=max(self.thinking, _count(usage.get("output_tokens_details"), "thinking_tokens")),
            read=max(self.read, _count(usage, "cache_read_input_tokens")),
            write=max(self.write, _count(usage, "cache_creation_input_tokens")),
        )

    def tokens(self) -> Tokens | None:
        """Convert the counts: the input excludes cached tokens, the output includes thinking."""
        total = self.input + self.read + self.write + self.output
        if not total:
            return None
        return Tokens(
            input=self.input,
            output=max(0, self.output - self.thinking),
            reasoning=self.thinking,
            cache=CacheTokens(read=self.read, write=self.write),
            total=total,
        )


def _count(of: Any, name: str) -> int:
    value = of.get(name) if isinstance(of, dict) else None
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**53 else 0
