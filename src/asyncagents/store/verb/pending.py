"""Calls whose result comes later: looked up, signed, and forgotten when nobody asks for them any more."""

from contextlib import suppress

from msgspec.structs import replace

from asyncagents.domain.call import Call, Settled
from asyncagents.domain.codec import Unreadable
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.pending_tool import PendingStatus
from asyncagents.domain.permission import POLLING
from asyncagents.errors import Conflict, NotFound
from asyncagents.store.row import decode_call, put_call, save, the_call, the_session
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.subtask import TASK

WAITING_FOR_TASKS = (*POLLING, TASK)


async def pending_call(tx: Tx, call_id: CallId) -> Call:
    """Raises `NotFound` for a call that nobody outside may ask for."""
    call = await _find(tx, call_id)
    if call.later is None:
        raise NotFound("pending call", call_id)
    return call


async def _find(tx: Tx, call_id: CallId) -> Call:
    try:
        return await the_call(tx, call_id)
    except NotFound:
        raise NotFound("pending call", call_id) from None


async def waiting_call(tx: Tx, call_id: CallId) -> Call:
    """As `pending_call`, and a call that waits, or waited, for tasks: a status names it as well."""
    call = await _find(tx, call_id)
    waits = call.tool in WAITING_FOR_TASKS if call.settled else call.open is not None and not call.only_asks
    if call.later is None and not waits:
        raise NotFound("pending call", call_id)
    return call


async def pending_calls(
    tx: Tx, status: PendingStatus, session_id: SessionId | None, *, after: str, limit: int
) -> tuple[Call, ...]:
    """The oldest first. What cannot be read hides nothing else: a page that is not full is the last."""
    if session_id is not None:
        await the_session(tx, session_id)
    found: list[Call] = []
    while wanted := limit - len(found):
        rows = await _page(tx, status, session_id, after=after, limit=wanted)
        for call_id, *kept in rows:
            with suppress(Unreadable):
                found.append(decode_call(tuple(kept)))
            after = call_id
        if len(rows) < wanted:
            break
    return tuple(found)


async def _page(
    tx: Tx, status: PendingStatus, session_id: SessionId | None, *, after: str, limit: int
) -> list[Row]:
    if session_id is None:
        return await tx.all("pending_calls", status, after, limit)
    return await tx.all("pending_of_session", session_id, status, after, limit)


async def resume(tx: Tx, call_id: CallId) -> SessionId:
    """Wake the session of a settled call. It wakes by itself: this is for whoever does not trust that."""
    call = await pending_call(tx, call_id)
    if not isinstance(call.state, Settled):
        raise Conflict(f"call {call_id!r} still waits for its result; submit one first")
    row = await the_session(tx, call.session_id)
    await save(tx, row, row.control.woken())
    return call.session_id


async def keys(tx: Tx) -> tuple[bytes, ...]:
    """What secrets are made of, the newest first; none before the first is wanted."""
    return tuple(bytes(row[0]) for row in await tx.all("secret_keys"))


async def keys_since(tx: Tx, since: int) -> tuple[bytes, ...]:
    """The one in use at that time before all others."""
    return tuple(bytes(row[0]) for row in await tx.all("secret_keys_since", since))


async def first_key(tx: Tx, proposed: bytes) -> tuple[bytes, ...]:
    """One there must be; of two that are proposed at once, one counts for all."""
    return await keys(tx) or await new_key(tx, proposed)


async def new_key(tx: Tx, key: bytes) -> tuple[bytes, ...]:
    """From here on secrets are made of it; those made of older ones still count."""
    await tx.rev()  # what takes no revision counts as read, and is acknowledged though its commit failed
    await tx.one("insert_secret_key", key, tx.now)
    return await keys(tx)


async def issued_secret(tx: Tx, call_id: CallId) -> str | None:
    """What the other side chose to sign with."""
    row = await tx.one("call_secret", call_id, "in")
    return row[0] if row else None


async def forget_settled(tx: Tx, before: int, limit: int) -> int:
    """Drop calls that were settled long ago; what people and the model read of them stays."""
    rows = await tx.all("forgettable_calls", before, limit)
    for (call_id,) in rows:
        await _forget(tx, CallId(call_id))
    return len(rows)


async def _forget(tx: Tx, call_id: CallId) -> None:
    await tx.rev()
    await tx.run("delete_call_secret", call_id)
    try:
        call = await the_call(tx, call_id)
    except Unreadable:
        await tx.run("unlist_call", await tx.rev(), call_id)
        return
    if call.shown_pending:  # the model must go on to read that it was pending
        await put_call(tx, replace(call, later=None))
    else:
        await tx.run("delete_call", call_id)
