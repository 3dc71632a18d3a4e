"""JSON that is a little broken: half a character, a bare line end, a byte that is no UTF-8."""

import json
from collections.abc import Callable
from typing import TypeVar

import msgspec

T = TypeVar("T")

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""What reading JSON may raise, whatever it is."""


def mended(data: bytes, decode: Callable[[bytes], T]) -> T | None:
    """For data that `decode` has refused: what can be kept of it is read; None if that is still no use.

    Streams cut characters in two and models write line ends into strings; an answer is not lost by that.
    """
    try:
        value = json.loads(data.decode("utf-8", "replace"), strict=False)
        return decode(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, *UNREADABLE):
        return None
