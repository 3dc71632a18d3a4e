"""The incoming webhook for results of async tools: its URL and its secrets."""

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
    """Uses the configured URL; else that of this process's server, for programs on this machine."""

    def __init__(self, config: AsyncToolsConfig, store: PendingStore, rng: Rng) -> None:
        self.config = config
        self.keys = Keys(store, rng)
        self._listening: str | None = None

    async def callback(self, call_id: CallId) -> Callback:
        """Return the URL and the secret that a call's tool gets."""
        base = self.config.url or self._listening
        url = f"{base.rstrip('/')}{WEBHOOK_PATH}" if base else None
        return Callback(await self.keys.secret(call_id), url)

    async def secrets(self, call_id: CallId) -> tuple[Secret, ...]:
        """Return all secrets that may sign the result of a call."""
        return (*await self.keys.secrets(call_id), *self.config.secrets)

    @contextmanager
    def listening(self, url: str) -> Iterator[None]:
        """Use the URL of this process's server inside the block."""
        self._listening = url
        try:
            yield
        finally:
            self._listening = None
