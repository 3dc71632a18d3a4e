"""How long a connection may take over each of its steps, and how many there may be."""

from msgspec import Struct


class Patience(Struct, frozen=True, kw_only=True):
    """Of the server with those who talk to it. In seconds, save the last two."""

    header_seconds: float = 10.0
    """For the head of a request, from its first byte on; and for the first byte of a connection."""
    silent_seconds: float = 1.0
    """A connection that has sent no request for so long makes room before streams do."""
    body_seconds: float = 10.0
    """For a body, besides what a slow line needs for so many bytes."""
    discard_seconds: float = 1.0
    """For the rest of a body that is not wanted, before its sender is told so."""
    stall_seconds: float = 30.0
    """Whoever takes nothing of an answer for so long is cut off."""
    idle_seconds: int = 75
    """Between two requests."""
    linger_seconds: float = 4.0
    """For a farewell to be read."""
    stop_seconds: float = 3.0
    """For answers to be made, once the server stops."""
    connections: int = 1024
    """At a time. One more takes the place of one that has not shown the token, or is sent away."""
    stranger_bytes: int = 64 * 1024 * 1024
    """Of bodies at a time whose senders have not proved anything yet, besides the first 64 KiB of each."""

    @property
    def tokenless_streams(self) -> int:
        """At a time, of programs that have not shown the token: a share of the connections."""
        return max(1, self.connections // 4)
