"""Outgoing webhooks to list, read and send again: due, delivered and given up."""

from asyncagents.domain.delivery import STATES, Delivery, DeliveryState
from asyncagents.errors import InvalidInput
from asyncagents.store.delivery import DeliveryStore

MOST = 1_000


class Deliveries:
    """Get it from a runtime: `runtime.deliveries`."""

    def __init__(self, store: DeliveryStore) -> None:
        self._store = store

    async def list(
        self, state: DeliveryState | None = None, *, after: str = "", limit: int = 100
    ) -> tuple[Delivery, ...]:
        """List deliveries in the order of their calls, after the id `after`."""
        if not 0 < limit <= MOST:
            raise InvalidInput(f"limit must be from 1 to {MOST}")
        if state is not None and state not in STATES:
            raise InvalidInput(f"state must be one of {', '.join(STATES)}")
        return await self._store.list(state, after=after, limit=limit)

    async def get(self, delivery_id: str) -> Delivery:
        return await self._store.get(delivery_id)

    async def redeliver(self, delivery_id: str) -> Delivery:
        """Make a dead delivery due again, as if it were new; a process that serves sends it."""
        return await self._store.redeliver(delivery_id)
