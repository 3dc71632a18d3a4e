"""JSON of what is sent again and again, written once: the same tools go with every step of an agent."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
MOST = 16
"""Kept; then all of it is forgotten."""


class Written(Generic[T]):
    """Of values that nobody changes: the very same one is known again."""

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
