"""Store facade for rows with a due time: expires them, or postpones one that fails."""

from asyncagents.errors import Damaged, StoreError, StuckRow
from asyncagents.store.verb import expire
from asyncagents.store.verb_runner import VerbRunner


class DueStore(VerbRunner):
    async def expire(self, limit: int = expire.SWEEP_ROWS) -> int:
        """Expire up to `limit` overdue rows of each kind; returns how many. The rest waits for the next call.

        Raises `StuckRow`, with nothing committed, if a row fails for a reason of its own.
        """
        place = expire.SweepPosition()
        try:
            return await self._write(lambda tx: expire.expire_due(tx, limit, place))
        except Exception as error:
            of_a_row = isinstance(error, Damaged) or not isinstance(error, StoreError)
            if place.kind is None or not of_a_row:
                raise
            raise StuckRow(place.kind, place.id, f"{type(error).__name__}: {error}") from error

    async def put_off(self, kind: str, id: str, until: int) -> None:
        """Postpone a due row."""
        await self._write(lambda tx: expire.put_off(tx, kind, id, until))
