"""Store facade for the census that metrics report."""

import asyncio

from asyncagents.store.tx import Database
from asyncagents.store.verb import census
from asyncagents.store.verb.census import Census
from asyncagents.store.verb_runner import VerbRunner


class CensusStore(VerbRunner):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._lock = asyncio.Lock()
        """Allows one census at a time, so that frequent metric requests cannot occupy all reader threads."""

    async def take(self, pool: str) -> Census:
        """Count everything at one moment; active sessions are those of one pool."""
        async with self._lock:
            return await self._read(lambda tx: census.take_census(tx, pool))
