"""Ids that sort by creation: a prefix, the era, 12 hex digits of time and 14 random base62 characters."""

import re
from contextlib import suppress
from functools import cache
from threading import Lock
from typing import NewType

from asyncagents.domain.clock import Clock, Rng
from asyncagents.errors import InvalidInput

SessionId = NewType("SessionId", str)
"""The id of a session: `ses_…`."""
MessageId = NewType("MessageId", str)
"""The id of a message: `msg_…`."""
PartId = NewType("PartId", str)
CallId = NewType("CallId", str)
"""The id of a call: `tool_…`; also the pending id of its result."""
RequestId = NewType("RequestId", str)
EventId = NewType("EventId", str)
PermissionId = NewType("PermissionId", str)
QuestionId = NewType("QuestionId", str)
OwnerId = NewType("OwnerId", str)

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PAIRS = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_62_2, _62_4, _62_6, _62_8 = 62**2, 62**4, 62**6, 62**8
_RANDOM = 62**14
_PER_MS = 0x1000
_ERA = 1 << 48  # ticks of 12 hex digits: 2^36 ms, some 26 months
_TIME = _ERA - 1
_FIRST = 26  # the era of August 2026 to October 2028, which ids do not name, like ids of OpenCode
_NAMED_FROM = (_FIRST + 1) * _ERA
_ROUND = 1 << 60  # a multiple of the era: added to a tick it keeps the last 12 digits and pads to 12
_LATEST_MS = 1 << 44  # in the year 2527; later times are ignored
_LETTERS = 20  # from g to z: f is the highest digit
_FORM = re.compile(r"[a-z]{3}_(z*[g-z])?([0-9a-f]{12})[0-9A-Za-z]{14}")
AHEAD_MS = 10_000
"""Max lead of another process's clock."""
AFTER_ALL_IDS = "~"
"""Sorts after all ids."""


def sort_id(given: str, near: int, *, past: bool = False) -> str:
    """Return the sort id of an ascending id: the id, with its era added if it has none.

    `near`: its time of creation in ms, by any clock; the era nearest to it is chosen.
    `past`: also name eras before August 2026, which no id of ours has.
    """
    found = _FORM.fullmatch(given)
    if found is None or found[1] is not None or not 0 <= near < _LATEST_MS:
        return given
    era = _nearest(int(found[2], 16), near * _PER_MS) >> 48
    name = _era_below(2 * _FIRST - era) if past and era < _FIRST else _era_above(era)
    return f"{given[:4]}{name}{given[4:]}"


def _nearest(time: int, near: int) -> int:
    """Find the tick with these 48 bits that is nearest to another tick."""
    return near - _ERA // 2 + ((time - near + _ERA // 2) & _TIME)


@cache
def _era_above(era: int) -> str:
    """Name an era so that it sorts above earlier ones: g to z, then zg to zz, and so on."""
    full, letter = divmod(era - _FIRST - 1, _LETTERS)
    return "" if era <= _FIRST else "z" * full + chr(ord("g") + letter)


def _era_below(era: int) -> str:
    """Name an era so that it sorts below earlier ones."""
    return "-" * (era - _FIRST)


def _era_of_name(name: str) -> int:
    return _FIRST + 1 + _LETTERS * (len(name) - 1) + ord(name[-1]) - ord("g")


class Ids:
    """Generates increasing ids, from any thread, even if the clock stops or steps back."""

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._now = clock.now
        self._below = rng.below
        self._last = 0
        self._event_end = ""
        self._lock = Lock()

    def session(self) -> SessionId:
        """Generate a session id; its time counts down, so that sessions sort newest first."""
        tick = self._tick()
        era = "" if tick < _NAMED_FROM else _era_below(tick >> 48)
        return SessionId(f"ses_{era}{hex(_ROUND - 1 - tick)[-12:]}{self._random()}")

    def message(self) -> MessageId:
        return MessageId(self._ascending("msg"))

    def messages(self, count: int) -> list[MessageId]:
        """Generate `count` ascending ids that share their random part."""
        ending = self._random()
        return [MessageId(self._ascending("msg", ending)) for _ in range(count)]

    def parts(self, count: int) -> list[PartId]:
        """Generate `count` ascending part ids that share their random part."""
        ending = self._random()
        return [PartId(f"prt_{self._tick() & _TIME:012x}{ending}") for _ in range(count)]

    def part(self) -> PartId:
        return PartId(self._ascending("prt"))

    def call(self) -> CallId:
        return CallId(self._ascending("tool"))

    def request(self) -> RequestId:
        return RequestId(self._ascending("req"))

    def event(self) -> EventId:
        """Generate an event id; all of one process share their random part, as events are many."""
        self._event_end = self._event_end or self._random()
        return EventId(self._ascending("evt", self._event_end))

    def permission(self) -> PermissionId:
        return PermissionId(self._ascending("per"))

    def question(self) -> QuestionId:
        return QuestionId(self._ascending("que"))

    def todo(self) -> str:
        return self._ascending("todo")

    def advance_past(self, given: str) -> None:
        """Generate ids above this one from here on. Raises `InvalidInput` for a malformed or future id.

        An id without an era belongs to the era in which it is nearest to now.
        """
        found = _FORM.fullmatch(given)
        if found is None:
            raise InvalidInput(
                f"{given[:80]!r} is not a valid id: expected a prefix, 12 hex digits of time, with a"
                " letter from g to z before them from October 2028 on, and 14 letters or digits; leave it out"
                " to get a generated one"
            )
        name, time = found[1], int(found[2], 16)
        with self._lock:
            now = self._now() * _PER_MS
            tick = _nearest(time, now) if name is None else _era_of_name(name) * _ERA + time
            above_all = name is None and tick >> 48 < now >> 48 <= _FIRST  # the id is of the previous era
            if above_all or tick - now > AHEAD_MS * _PER_MS:
                raise InvalidInput(f"{given!r} lies in the future: set the clock, or leave the id out")
            self._last = max(self._last, tick)

    def try_advance_past(self, *given: str | None) -> None:
        """Do as `advance_past` for each id, ignoring ids that it refuses."""
        for each in filter(None, given):
            with suppress(InvalidInput):
                self.advance_past(each)

    def _ascending(self, prefix: str, ending: str = "") -> str:
        tick = self._tick()
        time = hex(tick + _ROUND)[-12:]  # twice as fast as a format
        if tick < _NAMED_FROM:
            return f"{prefix}_{time}{ending or self._random()}"
        return f"{prefix}_{_era_above(tick >> 48)}{time}{ending or self._random()}"

    def _tick(self) -> int:
        """Count up; more than 4095 ids in a millisecond borrow from the next one."""
        with self._lock:
            tick = self._now() * _PER_MS + 1
            if tick <= self._last:
                tick = self._last + 1
            self._last = tick
            return tick

    def _random(self) -> str:
        high, low = divmod(self._below(_RANDOM), _62_8)  # small numbers divide faster
        a, b, c = high // _62_4, high // _62_2 % _62_2, high % _62_2
        d, e, f, g = low // _62_6, low // _62_4 % _62_2, low // _62_2 % _62_2, low % _62_2
        pairs = _PAIRS
        return f"{pairs[a]}{pairs[b]}{pairs[c]}{pairs[d]}{pairs[e]}{pairs[f]}{pairs[g]}"
