"""Where a provider is reached, and with what."""

from typing import Any

from msgspec import Struct

from asyncagents.config.secret import Secret
from asyncagents.llm.hidden import shown

IDLE_SECONDS = 300.0


class Endpoint(Struct, frozen=True, kw_only=True):
    provider_id: str
    base_url: str
    api_key: Secret | None = None
    headers: dict[str, str] = {}
    idle_seconds: float = IDLE_SECONDS
    """How long a stream may go on without saying anything of meaning; 0 is for ever."""
    body: dict[str, Any] = {}
    """Fields that every request to this provider carries."""

    def __repr__(self) -> str:
        """Headers, fields and the address may hold keys too."""
        return f"Endpoint({self.provider_id!r}, {shown(self.base_url)!r})"
