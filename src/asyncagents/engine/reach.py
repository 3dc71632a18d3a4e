"""How the results of async tools come in: where they are posted, and what they are signed with."""

from collections.abc import Iterator
from contextlib import contextmanager

from asyncagents.config.config import AsyncToolsConfig
from asyncagents.config.secret import Secret
from asyncagents.domain.id import CallId
from asyncagents.domain.port import Rng
from asyncagents.engine.keys import Keys
from asyncagents.engine.tool import Callback
from asyncagents.store.pending import PendingStore

WEBHOOK_PATH = "/async-tool/webhook"


class Reach:
    """At the configured address; else where a server of this process listens, for this machine's programs."""

    def __init__(self, config: AsyncToolsConfig, store: PendingStore, rng: Rng) -> None:
        self.config = config
        self.keys = Keys(store, rng)
        self._listening: str | None = None

    async def callback(self, call_id: CallId) -> Callback:
        """What the tool of a call is told."""
        base = self.config.url or self._listening
        url = f"{base.rstrip('/')}{WEBHOOK_PATH}" if base else None
        return Callback(await self.keys.secret(call_id), url)

    async def secrets(self, call_id: CallId) -> tuple[Secret, ...]:
        """All that a result may be signed with."""
        return (*await self.keys.secrets(call_id), *self.config.secrets)

    @contextmanager
    def listening(self, url: str) -> Iterator[None]:
        """A server is there for as long as the block lasts."""
        self._listening = url
        try:
            yield
        finally:
            self._listening = None
