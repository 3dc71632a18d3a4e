"""Stores the trace of a session, so that it outlives a run, a park and the process."""

from asyncagents.domain.fact import Admit
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Claim, Control
from asyncagents.store.row import check_claim
from asyncagents.store.tx import Tx


async def start_trace(tx: Tx, control: Control, fact: Admit) -> None:
    """Set the trace of a prompt, or none, when a person's prompt begins a turn of a session that rests."""
    speaks = fact.source == "person" and fact.wakes
    if speaks and control.state == "idle" and not control.in_turn and fact.trace != control.trace:
        await set_trace(tx, control.id, fact.trace)


async def save_trace(tx: Tx, claim: Claim, trace: str) -> None:
    """Store the trace that a run began for a session without one; later runs continue in it."""
    await check_claim(tx, claim)
    await set_trace(tx, claim.session_id, trace)


async def set_trace(tx: Tx, session_id: SessionId, trace: str | None) -> None:
    await tx.run("set_trace", trace, session_id)


async def trace_of(tx: Tx, session_id: SessionId) -> str | None:
    row = await tx.one("trace", session_id)
    return row[0] if row is not None else None
