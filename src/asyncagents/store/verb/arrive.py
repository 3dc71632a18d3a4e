"""A session written in pieces: until the last piece commits, no reader and no claim sees it."""

from collections.abc import Sequence

from msgspec import Struct

from asyncagents.domain.id import SessionId
from asyncagents.errors import Conflict
from asyncagents.store.tx import Tx

PIECE_ROWS = 400
"""Rows of a piece: a few milliseconds of the write lock."""
STALE_MS = 10 * 60 * 1000
"""An arrival that was not written to for so long is removed."""
KEEP_MS = 24 * 60 * 60 * 1000
"""How long a finished arrival is kept for feed readers that fell behind."""
_REMOVED_MESSAGES, _REMOVED_CALLS = 50, 400
_STALE_BATCH = 20


class Arrival(Struct, frozen=True):
    session_id: SessionId
    token: str
    """Names the process that writes it; another that begins the same session takes over."""


async def begin_arrival(tx: Tx, session_id: SessionId) -> Arrival | None:
    """Begin to write a session, or take over what another process began; None: the session exists."""
    await tx.rev()
    if await tx.one("lineage", session_id) is not None:
        return None
    arrival = Arrival(session_id, tx.ids.request())
    await tx.run("begin_arrival", arrival.session_id, arrival.token, tx.now)
    await tx.run("forget_arrivals", tx.now - KEEP_MS)
    return arrival


async def check_arrival(tx: Tx, arrival: Arrival) -> None:
    """Raise `Conflict` if another process took the arrival over, or removed it as stale."""
    await tx.rev()
    if not await tx.run("touch_arrival", tx.now, arrival.session_id, arrival.token):
        raise Conflict(
            f"session {arrival.session_id} is being written by another process, or this one paused for too"
            " long; begin again"
        )


async def end_arrival(tx: Tx, arrival: Arrival) -> None:
    """End an arrival, in the transaction that writes the session's own row."""
    await check_arrival(tx, arrival)
    await tx.run("end_arrival", await tx.rev(), arrival.session_id, arrival.token)


async def stale_arrivals(tx: Tx) -> Sequence[Arrival]:
    rows = await tx.all("stale_arrivals", tx.now - STALE_MS, _STALE_BATCH)
    return [Arrival(SessionId(session_id), token) for session_id, token in rows]


async def take_over_arrival(tx: Tx, left: Arrival) -> Arrival | None:
    """Take over a stale arrival, so that its writer cannot go on; None: it was written to meanwhile."""
    arrival = Arrival(left.session_id, tx.ids.request())
    await tx.rev()
    columns = arrival.token, tx.now, left.session_id, left.token, tx.now - STALE_MS
    return arrival if await tx.run("take_over_arrival", *columns) else None


async def remove_piece(tx: Tx, arrival: Arrival, *, wholly: bool) -> bool:
    """Remove a piece of what was written; False: nothing is left. `wholly`: remove the arrival itself, too.

    If another process has written the whole session meanwhile, its rows stay and only the arrival goes.
    """
    await check_arrival(tx, arrival)
    if await tx.one("lineage", arrival.session_id) is not None:
        await tx.run("drop_arrival", arrival.session_id, arrival.token)
        return False
    await tx.run("drop_arrived_parts", arrival.session_id, _REMOVED_MESSAGES)
    await tx.run("drop_arrived_inputs", arrival.session_id, _REMOVED_MESSAGES)
    messages = await tx.run("drop_arrived_messages", arrival.session_id, _REMOVED_MESSAGES)
    calls = await tx.run("drop_arrived_calls", arrival.session_id, _REMOVED_CALLS)
    if messages or calls:
        return True
    if wholly:
        await tx.run("drop_arrival", arrival.session_id, arrival.token)
    return False
