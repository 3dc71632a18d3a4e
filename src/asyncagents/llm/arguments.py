"""Parse the arguments of a tool call as the model wrote them."""

from typing import Any

import msgspec

from asyncagents.llm.mend import UNREADABLE, mended


def read_arguments(text: str) -> dict[str, Any] | None:
    """Parse arguments; None if they are not a JSON object. An empty text is a call without arguments."""
    if not text.strip():
        return {}
    value = _decoded(text)
    if isinstance(value, str):  # some servers encode the arguments twice
        value = _decoded(value)
    return value if isinstance(value, dict) else None


def _decoded(text: str) -> Any:
    data = text.encode("utf-8", "replace")
    try:
        value = msgspec.json.decode(data)
    except UNREADABLE:
        return mended(data, msgspec.json.decode)
    return {} if value is None else value
