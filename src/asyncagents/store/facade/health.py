"""Store facade for health checks."""

from asyncagents.store.verb import health
from asyncagents.store.verb_runner import VerbRunner


class HealthStore(VerbRunner):
    async def try_write(self) -> None:
        """Commit a transaction that leaves no row behind. Raises `StoreError` where a request would."""
        await self._write(health.try_write)
