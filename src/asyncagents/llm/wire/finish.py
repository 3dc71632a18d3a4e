"""Read the end of an answer: the finish reason and the token counts, which proxies mix between APIs."""

from typing import Any

from asyncagents.llm.model import Finish

FINISH_REASONS: dict[str, Finish] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool-calls",
    "tool_use": "tool-calls",
    "length": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content-filter",
    "refusal": "content-filter",
    "error": "error",
}


def token_count(usage: Any, name: str) -> int:
    """Return a count of the usage object; 0 if it is missing or not a sane number."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**53 else 0
