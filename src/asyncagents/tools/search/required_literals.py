"""Find literals that every match of a regular expression contains, to skip files without them."""

import re
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, TypeAlias

from msgspec import Struct

MOST_CHOICES = 16
_Runs: TypeAlias = tuple[str, ...]
"""Every match contains one of these; empty: nothing is known."""
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_ZERO_WIDTH = frozenset({"AT", "ASSERT", "ASSERT_NOT"})
# Characters that a line does not contain, or not as in the file.
_NEVER_IN_LINE = frozenset("\n\r\0")


class RequiredLiterals(Struct, frozen=True):
    any_of: tuple[bytes, ...] = ()
    """ASCII literals, of which a match has at least one; empty: every file may match."""
    any_case: bool = False
    """Whether case is ignored; `any_of` is then in lower case."""

    @property
    def shortest(self) -> int:
        return min(map(len, self.any_of), default=0)

    def may_match(self, data: bytes) -> bool:
        if not self.any_of:
            return True
        if self.any_case:
            # Some non-ASCII letters are case variants of an ASCII letter.
            return not data.isascii() or self._occur_in(data.lower())
        return self._occur_in(data)

    def _occur_in(self, data: bytes) -> bool:
        return any(each in data for each in self.any_of)


def find_literals(pattern: str) -> RequiredLiterals:
    """Return the required literals of a pattern; none if Python cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = import_module("re._parser").parse(pattern)
            any_case = bool(tree.state.flags & re.IGNORECASE)
            runs = _best_of(_sequence_runs(tree))
    except (re.error, RecursionError, OverflowError, ImportError, AttributeError, TypeError, ValueError):
        return RequiredLiterals()  # the parser is a private module of Python that may change
    found = tuple(each.lower() if any_case else each for each in runs)
    return RequiredLiterals(tuple(dict.fromkeys(each.encode("ascii") for each in found)), any_case)


def _best_of(choices: Iterable[_Runs]) -> _Runs:
    """Return the choice whose shortest run is longest."""
    return max(choices, key=lambda runs: (min(map(len, runs), default=0), -len(runs)), default=())


def _sequence_runs(items: Sequence[tuple[Any, Any]]) -> list[_Runs]:
    found: list[_Runs] = []
    run = ""
    for operation, value in items:
        name = str(operation)
        if name == "LITERAL" and _is_plain(value):
            run += chr(value)
            continue
        if name in _ZERO_WIDTH:
            continue
        found.append((run,) if run else ())
        run = ""
        found.append(_item_runs(name, value))
    found.append((run,) if run else ())
    return found


def _is_plain(letter: int) -> bool:
    return letter < 128 and chr(letter) not in _NEVER_IN_LINE


def _item_runs(name: str, value: Any) -> _Runs:
    """Return the runs of which every match of one pattern item contains one."""
    if name == "SUBPATTERN":
        _, added, removed, inner = value
        return () if added or removed else _best_of(_sequence_runs(inner))
    if name in _REPEATS:
        least, _, inner = value
        return _best_of(_sequence_runs(inner)) if least else ()
    if name == "ATOMIC_GROUP":
        return _best_of(_sequence_runs(value))
    if name == "BRANCH":
        runs = [_best_of(_sequence_runs(each)) for each in value[1]]
        together = tuple(each for one in runs for each in one)
        return together if all(runs) and len(together) <= MOST_CHOICES else ()
    return ()
