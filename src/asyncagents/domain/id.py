"""Ids that sort by creation: a prefix, 12 hex digits of time and 14 random base62 characters."""

import re
from contextlib import suppress
from threading import Lock
from typing import NewType

from asyncagents.domain.port import Clock, Rng
from asyncagents.errors import InvalidInput

SessionId = NewType("SessionId", str)
MessageId = NewType("MessageId", str)
PartId = NewType("PartId", str)
CallId = NewType("CallId", str)
RequestId = NewType("RequestId", str)
EventId = NewType("EventId", str)
PermissionId = NewType("PermissionId", str)
QuestionId = NewType("QuestionId", str)
OwnerId = NewType("OwnerId", str)

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PAIRS = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_62_2, _62_4, _62_6, _62_8 = 62**2, 62**4, 62**6, 62**8
_RANDOM = 62**14
_TIME = (1 << 48) - 1  # the format has 48 bits: ids start over every 2^36 ms, next in October 2028
_PER_MS = 0x1000
_FORM = re.compile(r"[a-z]{3}_([0-9a-f]{12})[0-9A-Za-z]{14}")
AHEAD_MS = 10_000
"""So far another clock may be ahead of ours."""


class Ids:
    """Makes ids, each above the one before, from any thread, even when the clock stands or steps back."""

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._last = 0
        self._event_end = ""
        self._lock = Lock()

    def session(self) -> SessionId:
        """Sessions sort newest first, so their time counts down."""
        return SessionId(f"ses_{~self._tick() & _TIME:012x}{self._random()}")

    def message(self) -> MessageId:
        return MessageId(self._ascending("msg"))

    def messages(self, count: int) -> list[MessageId]:
        """So many, in this order; what is random in them is the same."""
        ending = self._random()
        return [MessageId(f"msg_{self._tick() & _TIME:012x}{ending}") for _ in range(count)]

    def part(self) -> PartId:
        return PartId(self._ascending("prt"))

    def call(self) -> CallId:
        return CallId(self._ascending("tool"))

    def request(self) -> RequestId:
        return RequestId(self._ascending("req"))

    def event(self) -> EventId:
        """There are many, and who makes them is told by one end for all: the time is never the same."""
        self._event_end = self._event_end or self._random()
        return EventId(f"evt_{self._tick() & _TIME:012x}{self._event_end}")

    def permission(self) -> PermissionId:
        return PermissionId(self._ascending("per"))

    def question(self) -> QuestionId:
        return QuestionId(self._ascending("que"))

    def todo(self) -> str:
        return self._ascending("todo")

    def reach(self, given: str) -> None:
        """From here on ids are above this one, which somebody else made. Raises `InvalidInput`."""
        found = _FORM.fullmatch(given)
        if found is None:
            raise InvalidInput(
                f"{given[:80]!r} is no id: after its prefix it has 12 hex digits of its time, and 14 letters"
                " or digits; leave it out, and one is made"
            )
        with self._lock:
            now = self._clock.now() * _PER_MS
            time = int(found[1], 16)
            ahead = (time - now) & _TIME
            over = ahead > _TIME // 2
            if over and time <= now & _TIME:
                return
            if over or ahead > AHEAD_MS * _PER_MS:  # or of before ids started over: it would be above all
                raise InvalidInput(f"{given!r} is of a time to come: set the clock, or leave the id out")
            self._last = max(self._last, now + ahead)

    def follow(self, *given: str | None) -> None:
        """As `reach`, if that can be: what is there already was made by whoever made it."""
        for each in filter(None, given):
            with suppress(InvalidInput):
                self.reach(each)

    def _ascending(self, prefix: str) -> str:
        return f"{prefix}_{self._tick() & _TIME:012x}{self._random()}"

    def _tick(self) -> int:
        """More than 4095 ids in a millisecond borrow from the next one."""
        with self._lock:
            tick = self._clock.now() * _PER_MS + 1
            if tick <= self._last:
                tick = self._last + 1
            self._last = tick
            return tick

    def _random(self) -> str:
        high, low = divmod(self._rng.below(_RANDOM), _62_8)  # small numbers divide faster
        a, b, c = high // _62_4, high // _62_2 % _62_2, high % _62_2
        d, e, f, g = low // _62_6, low // _62_4 % _62_2, low // _62_2 % _62_2, low % _62_2
        pairs = _PAIRS
        return f"{pairs[a]}{pairs[b]}{pairs[c]}{pairs[d]}{pairs[e]}{pairs[f]}{pairs[g]}"
