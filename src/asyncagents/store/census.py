"""The door to what metrics count."""

from asyncagents.store.door import Door
from asyncagents.store.verb import census
from asyncagents.store.verb.census import Census


class CensusStore(Door):
    async def take(self, pool: str) -> Census:
        """All counts at one moment; sessions at work are those of one pool."""
        return await self._read(lambda tx: census.take(tx, pool))
