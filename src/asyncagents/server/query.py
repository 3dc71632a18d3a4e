"""Query parameters of a request: invalid values are refused, unknown names ignored."""

from collections.abc import Sequence
from typing import TypeVar

from asyncagents.errors import InvalidInput
from asyncagents.server.http import Pairs

HIGHEST = 2**53 - 1
"""JavaScript's largest safe integer."""

T = TypeVar("T", bound=str)


class Query:
    """Typed access to query parameters. Each method raises `InvalidInput`; a missing name gives the default.

    Unknown names are ignored: OpenCode's clients add some to every query.
    """

    def __init__(self, given: Pairs) -> None:
        self._given = given

    def text(self, name: str) -> str | None:
        found = [value for key, value in self._given if key == name]
        if len(found) > 1:
            raise InvalidInput(f"{name} occurs {len(found)} times: give it once")
        return found[0] if found else None

    def word(self, name: str) -> str | None:
        value = self.text(name)
        if value == "":
            raise InvalidInput(f"{name} is empty: omit it or give a value")
        return value

    def one_of(self, name: str, choices: Sequence[T]) -> T | None:
        value = self.text(name)
        for choice in choices:
            if value == choice:
                return choice
        if value is None:
            return None
        raise InvalidInput(f"{name} is {value[:40]!r}: expected one of {', '.join(choices)}")

    def number(self, name: str, otherwise: int, *, least: int) -> int:
        value = self.text(name)
        if value is None:
            return otherwise
        is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(HIGHEST))
        if not is_number or not least <= int(value) <= HIGHEST:
            raise InvalidInput(f"{name} is {value[:40]!r}: expected a number from {least} to {HIGHEST}")
        return int(value)
