"""Where a provider is reached, and with what."""

from typing import Any

from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.llm.hidden import shown

FIRST_SECONDS = 600.0
IDLE_SECONDS = 300.0
PING_SECONDS = 3600.0
"""A stream that sends signs of life and nothing of meaning is ended after so long."""


class Endpoint(Struct, frozen=True, kw_only=True):
    provider_id: str
    base_url: str
    api_key: Secret | None = None
    headers: dict[str, str] = {}
    first_seconds: float = FIRST_SECONDS
    """How long a model may think in silence before its first event of meaning; 0 is for ever."""
    idle_seconds: float = IDLE_SECONDS
    """How long a stream may be silent after that; 0 is for ever. A ping ends a silence."""
    body: dict[str, Any] = {}
    """Fields that every request to this provider carries."""

    def __repr__(self) -> str:
        """Headers, fields and the address may hold keys too."""
        return f"Endpoint({self.provider_id!r}, {shown(self.base_url)!r})"
