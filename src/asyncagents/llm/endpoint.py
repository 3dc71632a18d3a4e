"""The address, credentials and timeouts of a provider."""

from typing import Any

from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.llm.hidden import shown

FIRST_SECONDS = 600.0
IDLE_SECONDS = 300.0
PING_SECONDS = 3600.0
"""A stream that sends only pings and no content is closed after this long."""


class Endpoint(Struct, frozen=True, kw_only=True):
    provider_id: str
    base_url: str
    api_key: Secret | None = None
    headers: dict[str, str] = {}
    first_seconds: float = FIRST_SECONDS
    """Timeout until the first event with content; 0 disables it."""
    idle_seconds: float = IDLE_SECONDS
    """Timeout between two chunks after that, pings included; 0 disables it."""
    body: dict[str, Any] = {}
    """Fields added to the body of every request to this provider."""

    def __repr__(self) -> str:
        """Omit headers, body fields and the URL's query, which may hold keys."""
        return f"Endpoint({self.provider_id!r}, {shown(self.base_url)!r})"
