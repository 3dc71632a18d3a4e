"""Tasks of MCP servers: what a call keeps of one while its server works on it."""

from typing import Any

from msgspec import Struct, field

MIN_POLL_MS = 1_000
MAX_POLL_MS = 60_000
MAX_ID_CHARS = 1_000
MAX_CANCELS = 10
"""How often a server that cannot be reached is asked to cancel a task."""


class ServerTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The work that an MCP server does for a call, under an id of its own."""

    server: str
    id: str
    poll_ms: int = MIN_POLL_MS
    """How long to wait between two polls."""
    failures: int = 0
    """How many polls in a row did not reach the server."""
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The forms that a person is asked to fill in, or whose answers are to be sent, by the server's keys."""
    answered: tuple[str, ...] = ()
    """Keys whose answers the server has got."""
    cancels: int = 0
    """How often the server was asked to cancel the task."""
    over: bool = False
    """Whether the server needs nothing more from us: it has ended the task, or was asked to cancel it."""

    @property
    def next_poll_ms(self) -> int:
        """How long to wait until the next poll: longer after each one that did not reach the server."""
        failures = min(self.failures + self.cancels, 10)
        return min(MAX_POLL_MS, self.poll_ms << failures)


def bounded_poll_ms(wanted: int | None) -> int:
    """Return the interval that a server wants, within our limits."""
    return min(MAX_POLL_MS, max(MIN_POLL_MS, wanted or 0))
