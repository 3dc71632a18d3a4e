"""Timeouts and limits of connections."""

from msgspec import Struct


class Timeouts(Struct, frozen=True, kw_only=True):
    """Timeouts in seconds, and two limits."""

    header_seconds: float = 10.0
    """For the head of a request from its first byte, and for the first byte of a connection."""
    silent_seconds: float = 1.0
    """A connection without a request for this long is evicted before streams are."""
    body_seconds: float = 10.0
    """For a body, in addition to its size divided by the minimum transfer rate."""
    discard_seconds: float = 1.0
    """For reading the rest of a refused body before the response is sent."""
    stall_seconds: float = 30.0
    """A connection that reads nothing of a response for this long is reset."""
    idle_seconds: int = 75
    """Keep-alive between two requests."""
    linger_seconds: float = 4.0
    """For the client to read the last response after the connection is closed."""
    stop_seconds: float = 3.0
    """For requests in progress, once the server stops."""
    connections: int = 1024
    """Max open connections. A further one evicts one without the token, or is refused."""
    unverified_bytes: int = 64 * 1024 * 1024
    """Memory for bodies of unauthenticated senders, in addition to the first 64 KiB of each."""

    @property
    def tokenless_streams(self) -> int:
        """Max streams of clients without the token: a quarter of the connections."""
        return max(1, self.connections // 4)
