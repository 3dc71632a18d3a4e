"""The door to calls whose result comes later, from outside."""

from asyncagents.domain.call import Call
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.pending_tool import PendingStatus
from asyncagents.store.door import Door
from asyncagents.store.verb import pending


class PendingStore(Door):
    async def resume(self, call_id: CallId) -> SessionId:
        """Wake the session of a settled call."""
        return await self._write(lambda tx: pending.resume(tx, call_id))

    async def first_key(self, proposed: bytes) -> tuple[bytes, ...]:
        """The keys that there are; else this one, from here on."""
        return await self._write(lambda tx: pending.first_key(tx, proposed))

    async def new_key(self, key: bytes) -> tuple[bytes, ...]:
        return await self._write(lambda tx: pending.new_key(tx, key))

    async def forget_settled(self, before: int, limit: int = 500) -> int:
        """Drop calls with results from outside that were settled before; returns how many."""
        return await self._write(lambda tx: pending.forget_settled(tx, before, limit))

    async def call(self, call_id: CallId) -> Call:
        """One whose result comes later."""
        return await self._read(lambda tx: pending.pending_call(tx, call_id))

    async def waiting_call(self, call_id: CallId) -> Call:
        """Read a call whose result comes later, or one that waits for tasks."""
        return await self._read(lambda tx: pending.waiting_call(tx, call_id))

    async def calls(
        self, status: PendingStatus, session_id: SessionId | None, *, after: str, limit: int
    ) -> tuple[Call, ...]:
        """The oldest first."""
        return await self._read(
            lambda tx: pending.pending_calls(tx, status, session_id, after=after, limit=limit)
        )

    async def issued_secret(self, call_id: CallId) -> str | None:
        return await self._read(lambda tx: pending.issued_secret(tx, call_id))

    async def keys(self) -> tuple[bytes, ...]:
        """What secrets of calls are made of, the newest first."""
        return await self._read(pending.keys)

    async def keys_since(self, since: int) -> tuple[bytes, ...]:
        """The one in use at that time before all others."""
        return await self._read(lambda tx: pending.keys_since(tx, since))
