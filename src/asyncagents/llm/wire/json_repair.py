"""Parse the arguments of a tool call as the model wrote them."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

DECODE_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Everything that decoding JSON may raise."""


def decode_repaired(data: bytes, decode: Callable[[bytes], T]) -> T | None:
    """Repair data that `decode` has refused, and decode it again; None if that fails too.

    Streams split characters and models write raw line ends into strings.
    """
    try:
        value = json.loads(data.decode("utf-8", "replace"), strict=False)
        return decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, *DECODE_ERRORS):
        return None


def read_arguments(text: str) -> dict[str, Any] | None:
    """Parse arguments; None if they are not a JSON object. An empty text is a call without arguments."""
    if not text.strip():
        return {}
    value = _decode(text)
    if isinstance(value, str):  # some servers encode the arguments twice
        value = _decode(value)
    return value if isinstance(value, dict) else None


def _decode(text: str) -> Any:
    data = text.encode("utf-8", "replace")
    try:
        value = msgspec.json.decode(data)
    except DECODE_ERRORS:
        return decode_repaired(data, msgspec.json.decode)
    return {} if value is None else value
