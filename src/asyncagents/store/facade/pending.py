"""Store facade for pending calls and the keys that sign their webhooks."""

from asyncagents.domain.call.call import Call
from asyncagents.domain.call.pending_tool import PendingStatus
from asyncagents.domain.id import CallId, SessionId
from asyncagents.store.verb import pending
from asyncagents.store.verb_runner import VerbRunner


class PendingStore(VerbRunner):
    async def resume(self, call_id: CallId) -> SessionId:
        """Wake the session of a settled call."""
        return await self._write(lambda tx: pending.resume_session(tx, call_id))

    async def ensure_key(self, proposed: bytes) -> tuple[bytes, ...]:
        """Return the secret keys; if there are none, store `proposed` first."""
        return await self._write(lambda tx: pending.ensure_key(tx, proposed))

    async def add_key(self, key: bytes) -> tuple[bytes, ...]:
        return await self._write(lambda tx: pending.add_key(tx, key))

    async def forget_settled(self, before: int, limit: int = 500) -> int:
        """Delete pending calls that were settled before a time; returns how many."""
        return await self._write(lambda tx: pending.forget_settled(tx, before, limit))

    async def call(self, call_id: CallId) -> Call:
        """Read a pending call."""
        return await self._read(lambda tx: pending.pending_call(tx, call_id))

    async def waiting_call(self, call_id: CallId) -> Call:
        """Read a pending call, or a call that waits for tasks."""
        return await self._read(lambda tx: pending.waiting_call(tx, call_id))

    async def calls(
        self, status: PendingStatus, session_id: SessionId | None, *, after: str, limit: int
    ) -> tuple[Call, ...]:
        """List pending calls, oldest first."""
        return await self._read(
            lambda tx: pending.pending_calls(tx, status, session_id, after=after, limit=limit)
        )

    async def issued_secret(self, call_id: CallId) -> str | None:
        return await self._read(lambda tx: pending.issued_secret(tx, call_id))

    async def secret_keys(self) -> tuple[bytes, ...]:
        """Read the keys from which secrets of calls are derived, newest first."""
        return await self._read(pending.secret_keys)

    async def secret_keys_since(self, since: int) -> tuple[bytes, ...]:
        """Read the secret keys, the one in use at that time first."""
        return await self._read(lambda tx: pending.secret_keys_since(tx, since))
