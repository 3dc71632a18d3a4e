"""Repair slightly invalid JSON: unpaired surrogates, bare line ends, bytes that are not UTF-8."""

import json
from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Everything that decoding JSON may raise."""


def mended(data: bytes, decode: Callable[[bytes], T]) -> T | None:
    """Repair data that `decode` has refused, and decode it again; None if that fails too.

    Streams split characters and models write raw line ends into strings.
    """
    try:
        value = json.loads(data.decode("utf-8", "replace"), strict=False)
        return decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, *UNREADABLE):
        return None
