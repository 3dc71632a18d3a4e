"""Limits on requests per sender (token bucket) and on streams without a token."""

from ipaddress import IPv6Address, ip_address
from math import ceil
from typing import TypeAlias

from msgspec import Struct

from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.domain.clock import Clock
from asyncagents.server.http.messages import STREAM, Request, Response, error_response
from asyncagents.server.http.peer import Peer
from asyncagents.server.route import Access, Route

REQUESTS_PER_SECOND = 200.0
BURST = 400
MOST_SENDERS = 4096
"""Buckets kept; the least recently used is dropped, and is full again by then."""

RETRY_SECONDS = 5
"""Retry-After of a refused stream."""

_LIMITED_PREFIX = "/async-tool/"
_TOO_MANY_STREAMS = "too many streams without the token: at most {most} at a time; send the token"


_SenderKey: TypeAlias = tuple[Access, str]
"""Access and network of a sender: webhooks do not use up the limit of requests with the token."""


def is_limited(route: Route) -> bool:
    return route.changes and route.path.startswith(_LIMITED_PREFIX)


class _Bucket(Struct):
    left: float
    at: int


class RateLimit:
    """Token buckets for the routes that accept results, one per sender: verifying signatures costs time."""

    def __init__(self, clock: Clock, *, a_second: float = REQUESTS_PER_SECOND, at_once: int = BURST) -> None:
        self._clock = clock
        self._per_second = a_second
        self._burst = at_once
        self._buckets: BoundedDict[_SenderKey, _Bucket] = BoundedDict(MOST_SENDERS)

    def check(self, route: Route, request: Request) -> Response | None:
        if not is_limited(route):
            return None
        bucket, now = self._bucket((route.access, _sender_network(request.client))), self._clock.now()
        passed = max(0, now - bucket.at) / 1000
        bucket.left, bucket.at = min(self._burst, bucket.left + passed * self._per_second), now
        if bucket.left >= 1:
            bucket.left -= 1
            return None
        seconds = max(1, ceil((1 - bucket.left) / self._per_second))
        again = ("retry-after", str(seconds))
        return error_response(
            429, f"too many requests; retry in {seconds} s: a request takes effect only once", (again,)
        )

    def _bucket(self, sender: _SenderKey) -> _Bucket:
        bucket = self._buckets.get(sender) or _Bucket(float(self._burst), self._clock.now())
        self._buckets[sender] = bucket
        return bucket


def _sender_network(address: str) -> str:
    """Return the network that a limit applies to: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if not isinstance(found, IPv6Address) or found.is_loopback:
        return address
    return str(found.ipv4_mapped or IPv6Address(int(found) >> 64 << 64))


class StreamLimit:
    """Limits the number of streams whose clients have not sent the token."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._peers: set[Peer] = set()

    def enter(self, route: Route, peer: Peer) -> Response | None:
        """Count a stream without the token; return a refusal if there are too many."""
        if route.content_type != STREAM or peer.has_token:
            return None
        if len(self._peers) >= self._most:
            again = ("retry-after", str(RETRY_SECONDS))
            return error_response(429, _TOO_MANY_STREAMS.format(most=self._most), (again,))
        self._peers.add(peer)
        peer.is_streaming = True
        return None

    def leave(self, peer: Peer) -> None:
        """Release the stream of a peer, if one is counted."""
        self._peers.discard(peer)
        peer.is_streaming = False
