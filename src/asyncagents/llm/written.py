"""Cache the JSON of values that are sent repeatedly, such as the tools of every step."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
MOST = 16
"""Entries; beyond that the cache is cleared."""


class Written(Generic[T]):
    """Encodes immutable values once, by identity."""

    def __init__(self, write: Callable[[T], Any]) -> None:
        self._write = write
        self._known: dict[int, tuple[T, msgspec.Raw]] = {}

    def __call__(self, value: T) -> msgspec.Raw:
        kept = self._known.get(id(value))
        if kept is None:
            if len(self._known) >= MOST:
                self._known.clear()
            kept = self._known[id(value)] = value, msgspec.Raw(msgspec.json.encode(self._write(value)))
        return kept[1]
