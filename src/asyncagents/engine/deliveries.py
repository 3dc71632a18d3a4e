"""Outgoing webhooks as people look at them: what is owed, what was delivered, what was given up."""

from asyncagents.domain.delivery import STATES, Delivery, DeliveryState
from asyncagents.errors import InvalidInput
from asyncagents.store.delivery import DeliveryStore

MOST = 1_000


class Deliveries:
    """Of a runtime: `runtime.deliveries`."""

    def __init__(self, store: DeliveryStore) -> None:
        self._store = store

    async def list(
        self, state: DeliveryState | None = None, *, after: str = "", limit: int = 100
    ) -> tuple[Delivery, ...]:
        """In the order in which their calls were made; `after` an id."""
        if not 0 < limit <= MOST:
            raise InvalidInput(f"limit is from 1 to {MOST}")
        if state is not None and state not in STATES:
            raise InvalidInput(f"a state is one of {', '.join(STATES)}")
        return await self._store.list(state, after=after, limit=limit)

    async def get(self, delivery_id: str) -> Delivery:
        return await self._store.get(delivery_id)

    async def redeliver(self, delivery_id: str) -> Delivery:
        """Try one again that is dead, as if it were new; whoever serves posts it."""
        return await self._store.redeliver(delivery_id)
