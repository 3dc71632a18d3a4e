"""Where results of pending calls come in: URL, secret and signature; secrets are derived, none is stored."""

import base64
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

from asyncagents.config.config import AsyncToolsConfig
from asyncagents.config.secret import Secret
from asyncagents.domain.clock import Rng
from asyncagents.domain.id import CallId
from asyncagents.engine.tool import ResultWebhook
from asyncagents.store.facade import PendingStore

KEY_BITS = 256
PREFIX = "whsec_"


class CallSecrets:
    def __init__(self, store: PendingStore, rng: Rng) -> None:
        self._store = store
        self._rng = rng

    async def secret(self, call_id: CallId) -> Secret:
        """Return the secret that signs the result of a call, derived from the current key."""
        keys = await self._store.secret_keys() or await self._store.ensure_key(self._random_key())
        return _derive_secret(keys[0], call_id)

    async def secrets(self, call_id: CallId) -> tuple[Secret, ...]:
        """Return all valid secrets of a call: one of every key, and the one that the other side chose."""
        made = [_derive_secret(key, call_id) for key in await self._store.secret_keys()]
        issued = await self._store.issued_secret(call_id)
        return (*made, *([Secret(issued)] if issued else ()))

    async def signing_secrets(self, call_id: CallId, since: int) -> tuple[Secret, ...]:
        """Return a secret of every key, first that of the key which was current at `since`."""
        keys = await self._store.secret_keys_since(since) or await self._store.ensure_key(self._random_key())
        return tuple(_derive_secret(key, call_id) for key in keys)

    async def rotate(self) -> None:
        """Derive secrets from a new key from here on; earlier ones stay valid."""
        await self._store.add_key(self._random_key())

    def _random_key(self) -> bytes:
        return self._rng.below(2**KEY_BITS).to_bytes(KEY_BITS // 8)


def _derive_secret(key: bytes, call_id: CallId) -> Secret:
    made = hmac.digest(key, call_id.encode(), sha256)
    return Secret(PREFIX + base64.b64encode(made).decode())


WEBHOOK_PATH = "/async-tool/webhook"


class IncomingWebhook:
    """Uses the configured URL; else that of this process's server, for programs on this machine."""

    def __init__(self, config: AsyncToolsConfig, store: PendingStore, rng: Rng) -> None:
        self.config = config
        self.keys = CallSecrets(store, rng)
        self._server_url: str | None = None

    async def result_webhook(self, call_id: CallId) -> ResultWebhook:
        """Return the URL and the secret that a call's tool gets."""
        base = self.config.url or self._server_url
        url = f"{base.rstrip('/')}{WEBHOOK_PATH}" if base else None
        return ResultWebhook(await self.keys.secret(call_id), url)

    async def secrets(self, call_id: CallId) -> tuple[Secret, ...]:
        """Return all secrets that may sign the result of a call."""
        return (*await self.keys.secrets(call_id), *self.config.secrets)

    @contextmanager
    def use_server_url(self, url: str) -> Iterator[None]:
        """Use the URL of this process's server inside the block."""
        self._server_url = url
        try:
            yield
        finally:
            self._server_url = None
