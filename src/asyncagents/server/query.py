"""What stands in the query of a request: nonsense is refused, what nobody asked for is passed over."""

from collections.abc import Sequence
from typing import TypeVar

from asyncagents.errors import InvalidInput
from asyncagents.server.http import Pairs

HIGHEST = 2**53 - 1
"""No number is greater: JavaScript could not read it back."""

T = TypeVar("T", bound=str)


class Query:
    """Each of these raises `InvalidInput`; a name that is not there gives what is said for it.

    OpenCode's clients add names of their own to every query, so that names nobody knows are no mistake.
    """

    def __init__(self, given: Pairs) -> None:
        self._given = given

    def text(self, name: str) -> str | None:
        found = [value for key, value in self._given if key == name]
        if len(found) > 1:
            raise InvalidInput(f"{name} is given {len(found)} times: give it once")
        return found[0] if found else None

    def word(self, name: str) -> str | None:
        value = self.text(name)
        if value == "":
            raise InvalidInput(f"{name} is empty: leave it out, or give one")
        return value

    def one_of(self, name: str, choices: Sequence[T]) -> T | None:
        value = self.text(name)
        for choice in choices:
            if value == choice:
                return choice
        if value is None:
            return None
        raise InvalidInput(f"{name} is {value[:40]!r}, and not one of {', '.join(choices)}")

    def number(self, name: str, otherwise: int, *, least: int) -> int:
        value = self.text(name)
        if value is None:
            return otherwise
        is_number = value.isascii() and value.isdecimal() and len(value) <= len(str(HIGHEST))
        if not is_number or not least <= int(value) <= HIGHEST:
            raise InvalidInput(f"{name} is {value[:40]!r}, and not a number from {least} to {HIGHEST}")
        return int(value)
