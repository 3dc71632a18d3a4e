"""Letters that every match of a regular expression has, so that a file without them need not be searched."""

import re
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from msgspec import Struct

MOST_CHOICES = 16
_Runs: TypeAlias = tuple[str, ...]
"""One of them is in every match; none: nothing is known."""
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_WITHOUT_WIDTH = frozenset({"AT", "ASSERT", "ASSERT_NOT"})
# A line has none of these, or not as it stands in the file.
_ELSEWHERE = frozenset("\n\r\0")


class Letters(Struct, frozen=True):
    any_of: tuple[bytes, ...] = ()
    """ASCII; none: every file may have a match."""
    any_case: bool = False
    """They stand here in small letters, and large ones count as well."""

    @property
    def shortest(self) -> int:
        return min(map(len, self.any_of), default=0)

    def may_match(self, data: bytes) -> bool:
        if not self.any_of:
            return True
        if self.any_case:
            # Some letters beyond ASCII are other cases of one in it.
            return not data.isascii() or self._stand_in(data.lower())
        return self._stand_in(data)

    def _stand_in(self, data: bytes) -> bool:
        return any(each in data for each in self.any_of)


def letters_of(pattern: str) -> Letters:
    """Nothing for a pattern that Python cannot read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = import_module("re._parser").parse(pattern)
            any_case = bool(tree.state.flags & re.IGNORECASE)
            runs = _best_of(_of_sequence(tree))
    except (re.error, RecursionError, OverflowError, ImportError, AttributeError, TypeError, ValueError):
        return Letters()  # the parser is a part of Python that may change
    found = tuple(each.lower() if any_case else each for each in runs)
    return Letters(tuple(dict.fromkeys(each.encode("ascii") for each in found)), any_case)


def _best_of(choices: Iterable[_Runs]) -> _Runs:
    """The one whose shortest run is longest."""
    return max(choices, key=lambda runs: (min(map(len, runs), default=0), -len(runs)), default=())


def _of_sequence(items: Sequence[tuple[Any, Any]]) -> list[_Runs]:
    found: list[_Runs] = []
    run = ""
    for operation, value in items:
        name = str(operation)
        if name == "LITERAL" and _is_plain(value):
            run += chr(value)
            continue
        if name in _WITHOUT_WIDTH:
            continue
        found.append((run,) if run else ())
        run = ""
        found.append(_of_item(name, value))
    found.append((run,) if run else ())
    return found


def _is_plain(letter: int) -> bool:
    return letter < 128 and chr(letter) not in _ELSEWHERE


def _of_item(name: str, value: Any) -> _Runs:
    """What stands in every match of one piece of a pattern."""
    if name == "SUBPATTERN":
        _, added, removed, inner = value
        return () if added or removed else _best_of(_of_sequence(inner))
    if name in _REPEATS:
        least, _, inner = value
        return _best_of(_of_sequence(inner)) if least else ()
    if name == "ATOMIC_GROUP":
        return _best_of(_of_sequence(value))
    if name == "BRANCH":
        runs = [_best_of(_of_sequence(each)) for each in value[1]]
        together = tuple(each for one in runs for each in one)
        return together if all(runs) and len(together) <= MOST_CHOICES else ()
    return ()
