"""The door to outgoing webhooks."""

from asyncagents.domain.delivery import Delivery, DeliveryState, Verdict
from asyncagents.domain.id import SessionId
from asyncagents.store.door import Door
from asyncagents.store.verb import delivery
from asyncagents.store.verb.delivery import Parcel


class DeliveryStore(Door):
    """`root_id`: of one tree only; None: of all."""

    async def due(
        self, root_id: SessionId | None, busy: dict[str, int], *, most: int, each: int
    ) -> tuple[str, ...]:
        """What can be posted now, the longest owed first; at most `each` to one host, with those `busy`."""
        return await self._read(lambda tx: delivery.due(tx, root_id, busy, most=most, each=each))

    async def next_due(self, root_id: SessionId | None) -> int | None:
        """When something becomes due that is not due now."""
        return await self._read(lambda tx: delivery.next_due(tx, root_id))

    async def claim(self, wanted: tuple[str, ...], lease_ms: int) -> tuple[Parcel, ...]:
        """Those of them that nobody else has taken. Not ended within the lease, they are due again."""
        return await self._write(lambda tx: delivery.claim(tx, wanted, lease_ms))

    async def conclude(self, parcel: Parcel, verdict: Verdict) -> None:
        """How a try went; nothing, if its lease was over and somebody else has it."""
        await self._write(lambda tx: delivery.conclude(tx, parcel, verdict))

    async def give_back(self, parcel: Parcel) -> None:
        """A try that was broken off does not count."""
        await self._write(lambda tx: delivery.give_back(tx, parcel))

    async def redeliver(self, delivery_id: str) -> Delivery:
        """Try one again that was given up."""
        return await self._write(lambda tx: delivery.redeliver(tx, delivery_id))

    async def forget(self, before: int, limit: int = 500) -> int:
        """Drop what ended before; returns how many."""
        return await self._write(lambda tx: delivery.forget(tx, before, limit))

    async def get(self, delivery_id: str) -> Delivery:
        return await self._read(lambda tx: delivery.delivery(tx, delivery_id))

    async def list(self, state: DeliveryState | None, *, after: str, limit: int) -> tuple[Delivery, ...]:
        """In the order in which their calls were made."""
        return await self._read(lambda tx: delivery.deliveries(tx, state, after=after, limit=limit))
