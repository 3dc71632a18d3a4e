"""Where a session stands in a trace: it outlives the run that began it, a park, and the process."""

from asyncagents.domain.control import Control, Lease
from asyncagents.domain.fact import Admit
from asyncagents.domain.id import SessionId
from asyncagents.store.row import check_lease
from asyncagents.store.tx import Tx


async def follow(tx: Tx, control: Control, fact: Admit) -> None:
    """What a person says to a session that rests begins a turn under his own trace, or under a new one."""
    speaks = fact.source == "person" and fact.wakes
    if speaks and control.state == "idle" and not control.in_turn and fact.trace != control.trace:
        await set_trace(tx, control.id, fact.trace)


async def keep(tx: Tx, lease: Lease, trace: str) -> None:
    """The run of a session that stands nowhere has begun a trace."""
    await check_lease(tx, lease)
    await set_trace(tx, lease.session_id, trace)


async def set_trace(tx: Tx, session_id: SessionId, trace: str | None) -> None:
    await tx.run("set_trace", trace, session_id)


async def trace_of(tx: Tx, session_id: SessionId) -> str | None:
    row = await tx.one("trace", session_id)
    return row[0] if row is not None else None
