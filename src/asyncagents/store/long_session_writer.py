"""Writes a long session in many short transactions; it becomes visible with the last one."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from asyncagents.domain.id import SessionId
from asyncagents.errors import Conflict
from asyncagents.store.tx import Tx, Verb
from asyncagents.store.verb import arrive
from asyncagents.store.verb.arrive import Arrival
from asyncagents.store.verb_runner import VerbRunner

T = TypeVar("T")


class LongSessionWriter(VerbRunner):
    async def _write_in_pieces(
        self, session_id: SessionId, pieces: Iterable[Verb[None]], last: Verb[T | None]
    ) -> T | None:
        """Run `pieces`, then `last`, which writes the session's own row.

        None: the session exists already, and what was written is removed. If the process dies meanwhile, its
        rows stay invisible; they are removed by the next process that begins the same session, or after ten
        minutes by any.
        """
        await self._remove_stale()
        arrival = await self._write(partial(_begin, session_id))
        if arrival is None:
            return None
        try:
            await self._remove(arrival, wholly=False)
            for piece in pieces:
                await self._write(partial(_write_piece, arrival, piece))
            done = await self._write(partial(_finish, arrival, last))
        except Exception:
            with suppress(Conflict):
                await self._remove(arrival, wholly=True)
            raise
        if done is None:
            await self._remove(arrival, wholly=True)
        return done

    async def _remove_stale(self) -> None:
        for left in await self._read(arrive.stale_arrivals):
            ours = await self._write(partial(_take_over, left))
            if ours is not None:
                with suppress(Conflict):  # another process has begun the same session
                    await self._remove(ours, wholly=True)

    async def _remove(self, arrival: Arrival, *, wholly: bool) -> None:
        while await self._write(lambda tx: arrive.remove_piece(tx, arrival, wholly=wholly)):
            pass


async def _begin(session_id: SessionId, tx: Tx) -> Arrival | None:
    return await arrive.begin_arrival(tx, session_id)


async def _take_over(left: Arrival, tx: Tx) -> Arrival | None:
    return await arrive.take_over_arrival(tx, left)


async def _write_piece(arrival: Arrival, piece: Verb[None], tx: Tx) -> None:
    await arrive.check_arrival(tx, arrival)
    await piece(tx)


async def _finish(arrival: Arrival, last: Verb[T | None], tx: Tx) -> T | None:
    done = await last(tx)
    if done is not None:
        await arrive.end_arrival(tx, arrival)
    return done
