"""How often one sender may come, and how many may stay: goes for each address, and a share for streams."""

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from math import ceil
from typing import TypeAlias

from msgspec import Struct

from asyncagents.domain.port import Clock
from asyncagents.server.http import STREAM, Answer, Request, refused
from asyncagents.server.peer import Peer
from asyncagents.server.route import Access, Route

A_SECOND = 200.0
AT_ONCE = 400
MOST_SENDERS = 4096
"""Remembered; the one that came longest ago is forgotten, and by then its bucket is full."""

RETRY_SECONDS = 5
"""After which a place for a stream may be free."""

_LIMITED = "/async-tool/"
_NO_PLACE = (
    "there are {most} streams already that came without the token, and no more are let in; send the token"
)


_Who: TypeAlias = tuple[Access, str]
"""Whoever floods us with webhooks takes nothing from who has the token and the same address."""


def is_limited(route: Route) -> bool:
    return route.changes and route.path.startswith(_LIMITED)


class _Bucket(Struct):
    left: float
    at: int


class Rates:
    """Of what brings results: a sender of webhooks gets one verified with each."""

    def __init__(self, clock: Clock, *, a_second: float = A_SECOND, at_once: int = AT_ONCE) -> None:
        self._clock = clock
        self._a_second = a_second
        self._at_once = at_once
        self._buckets: OrderedDict[_Who, _Bucket] = OrderedDict()

    def refusal(self, route: Route, request: Request) -> Answer | None:
        if not is_limited(route):
            return None
        bucket, now = self._bucket((route.access, _sender(request.client))), self._clock.now()
        passed = max(0, now - bucket.at) / 1000
        bucket.left, bucket.at = min(self._at_once, bucket.left + passed * self._a_second), now
        if bucket.left >= 1:
            bucket.left -= 1
            return None
        seconds = max(1, ceil((1 - bucket.left) / self._a_second))
        again = ("retry-after", str(seconds))
        return refused(429, f"too many at once; go on in {seconds} s, the same is done once", (again,))

    def _bucket(self, sender: _Who) -> _Bucket:
        bucket = self._buckets.pop(sender, None) or _Bucket(float(self._at_once), self._clock.now())
        self._buckets[sender] = bucket
        while len(self._buckets) > MOST_SENDERS:
            self._buckets.popitem(last=False)
        return bucket


def _sender(address: str) -> str:
    """Whoever has one address of IPv6 has 2**64 of them."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address) or found.is_loopback:
        return address
    return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))


class StreamShare:
    """The connections that streams may hold whose listeners have not shown the token."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._peers: set[Peer] = set()

    def refuse(self, route: Route, peer: Peer) -> Answer | None:
        """Take a place for a stream, unless there is none left."""
        if route.gives != STREAM or peer.proven:
            return None
        if len(self._peers) >= self._most:
            again = ("retry-after", str(RETRY_SECONDS))
            return refused(429, _NO_PLACE.format(most=self._most), (again,))
        self._peers.add(peer)
        peer.is_streaming = True
        return None

    def leave(self, peer: Peer) -> None:
        """Give the place back, if there was one."""
        self._peers.discard(peer)
        peer.is_streaming = False
