"""Store facade for outgoing webhooks."""

from asyncagents.domain.call.webhook import Delivery, DeliveryOutcome, DeliveryState
from asyncagents.domain.id import SessionId
from asyncagents.store.verb import delivery
from asyncagents.store.verb.delivery import DueDelivery
from asyncagents.store.verb_runner import VerbRunner


class DeliveryStore(VerbRunner):
    """`root_id` limits a query to one tree of sessions; None covers all."""

    async def due(
        self, root_id: SessionId | None, busy: dict[str, int], *, most: int, each: int
    ) -> tuple[str, ...]:
        """List due deliveries, longest owed first; at most `each` per host, counting those `busy`."""
        return await self._read(lambda tx: delivery.due_ids(tx, root_id, busy, most=most, each=each))

    async def next_due(self, root_id: SessionId | None) -> int | None:
        """Time at which the next delivery becomes due that is not due now."""
        return await self._read(lambda tx: delivery.next_due(tx, root_id))

    async def claim(self, wanted: tuple[str, ...], lease_ms: int) -> tuple[DueDelivery, ...]:
        """Claim those that no other process holds; unless ended within `lease_ms`, they are due again."""
        return await self._write(lambda tx: delivery.claim_deliveries(tx, wanted, lease_ms))

    async def end_attempt(self, parcel: DueDelivery, verdict: DeliveryOutcome) -> None:
        """Record how a try went; changes nothing if its lease has expired and another process holds it."""
        await self._write(lambda tx: delivery.end_attempt(tx, parcel, verdict))

    async def give_back(self, parcel: DueDelivery) -> None:
        """Return a claimed delivery; the interrupted try does not count."""
        await self._write(lambda tx: delivery.release_delivery(tx, parcel))

    async def redeliver(self, delivery_id: str) -> Delivery:
        """Make a dead delivery due again."""
        return await self._write(lambda tx: delivery.redeliver(tx, delivery_id))

    async def forget(self, before: int, limit: int = 500) -> int:
        """Delete deliveries that ended before a time; returns how many."""
        return await self._write(lambda tx: delivery.forget_ended(tx, before, limit))

    async def get(self, delivery_id: str) -> Delivery:
        return await self._read(lambda tx: delivery.delivery(tx, delivery_id))

    async def list(self, state: DeliveryState | None, *, after: str, limit: int) -> tuple[Delivery, ...]:
        """List deliveries in the order in which their calls were created."""
        return await self._read(lambda tx: delivery.deliveries(tx, state, after=after, limit=limit))
