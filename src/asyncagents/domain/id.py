"""Ids that sort by creation: a prefix, 12 hex digits of time and 14 random base62 characters."""

from threading import Lock
from typing import NewType

from asyncagents.domain.port import Clock, Rng

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


class Ids:
    """Makes ids, each above the one before, from any thread, even when the clock stands or steps back."""

    def __init__(self, clock: Clock, rng: Rng) -> None:
        self._clock = clock
        self._rng = rng
        self._last = 0
        self._lock = Lock()
        self._ending = ""

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
        """There are more of them than of all others together; nobody names one: all have the same end."""
        self._ending = self._ending or self._random()
        return EventId(f"evt_{self._tick() & _TIME:012x}{self._ending}")

    def permission(self) -> PermissionId:
        return PermissionId(self._ascending("per"))

    def question(self) -> QuestionId:
        return QuestionId(self._ascending("que"))

    def todo(self) -> str:
        return self._ascending("todo")

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
