"""The door to what metrics count."""

import asyncio

from asyncagents.store.door import Door
from asyncagents.store.tx import Database
from asyncagents.store.verb import census
from asyncagents.store.verb.census import Census


class CensusStore(Door):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._one = asyncio.Lock()
        """One at a time: whoever asks for it over and over leaves the other readers to others."""

    async def take(self, pool: str) -> Census:
        """All counts at one moment; sessions at work are those of one pool."""
        async with self._one:
            return await self._read(lambda tx: census.take(tx, pool))
