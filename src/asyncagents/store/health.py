"""The door for whoever asks whether the store works."""

from asyncagents.store.door import Door
from asyncagents.store.verb import health


class HealthStore(Door):
    async def try_write(self) -> None:
        """Commit a transaction that leaves nothing behind. Raises `StoreError` where a request would."""
        await self._write(health.try_write)
