"""Pending calls: look them up, derive their secrets, and delete them some time after they are settled."""

from contextlib import suppress

from msgspec.structs import replace

from asyncagents.domain.agent.permission import POLLING
from asyncagents.domain.call.call import Call, Settled
from asyncagents.domain.call.pending_tool import PendingStatus
from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.step import TASK_TOOL
from asyncagents.errors import Conflict, NotFound
from asyncagents.store.row import decode_call, put_call, require_call, require_session, save_session
from asyncagents.store.tx import Row, Tx

WAITING_FOR_TASKS = (*POLLING, TASK_TOOL)


async def pending_call(tx: Tx, call_id: CallId) -> Call:
    """Read a pending call. Raises `NotFound` for any other call."""
    call = await _require_call(tx, call_id)
    if call.later is None:
        raise NotFound("pending call", call_id)
    return call


async def _require_call(tx: Tx, call_id: CallId) -> Call:
    try:
        return await require_call(tx, call_id)
    except NotFound:
        raise NotFound("pending call", call_id) from None


async def waiting_call(tx: Tx, call_id: CallId) -> Call:
    """Read a pending call, or a call that waits or waited for tasks: a session's status names both."""
    call = await _require_call(tx, call_id)
    waits = (
        call.tool in WAITING_FOR_TASKS if call.is_settled else call.open is not None and not call.only_asks
    )
    if call.later is None and not waits:
        raise NotFound("pending call", call_id)
    return call


async def pending_calls(
    tx: Tx, status: PendingStatus, session_id: SessionId | None, *, after: str, limit: int
) -> tuple[Call, ...]:
    """List pending calls, oldest first; unreadable ones are skipped. A page that is not full is the last."""
    if session_id is not None:
        await require_session(tx, session_id)
    found: list[Call] = []
    while wanted := limit - len(found):
        rows = await _page(tx, status, session_id, after=after, limit=wanted)
        for call_id, *columns in rows:
            with suppress(Unreadable):
                found.append(decode_call(tuple(columns)))
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


async def resume_session(tx: Tx, call_id: CallId) -> SessionId:
    """Wake the session of a settled call once more; settling has woken it already."""
    call = await pending_call(tx, call_id)
    if not isinstance(call.state, Settled):
        raise Conflict(f"call {call_id!r} still waits for its result; submit one first")
    row = await require_session(tx, call.session_id)
    await save_session(tx, row, row.control.after_wake())
    return call.session_id


async def secret_keys(tx: Tx) -> tuple[bytes, ...]:
    """Read the keys from which secrets are derived, newest first; empty until the first is needed."""
    return tuple(bytes(row[0]) for row in await tx.all("secret_keys"))


async def secret_keys_since(tx: Tx, since: int) -> tuple[bytes, ...]:
    """Read the secret keys, the one in use at that time first."""
    return tuple(bytes(row[0]) for row in await tx.all("secret_keys_since", since))


async def ensure_key(tx: Tx, proposed: bytes) -> tuple[bytes, ...]:
    """Return the secret keys; without any, insert `proposed`. Of two proposed at once, one is stored."""
    return await secret_keys(tx) or await add_key(tx, proposed)


async def add_key(tx: Tx, key: bytes) -> tuple[bytes, ...]:
    """Insert the key for new secrets; secrets derived from older keys stay valid."""
    await tx.rev()  # without a revision it counts as a read, acknowledged even if its commit fails
    await tx.one("insert_secret_key", key, tx.now)
    return await secret_keys(tx)


async def issued_secret(tx: Tx, call_id: CallId) -> str | None:
    """Read the secret that the external worker chose for signing, if it did."""
    row = await tx.one("call_secret", call_id, "in")
    return row[0] if row else None


async def forget_settled(tx: Tx, before: int, limit: int = 500) -> int:
    """Delete pending calls that were settled before a time; returns how many. Their parts stay."""
    rows = await tx.all("forgettable_calls", before, limit)
    for (call_id,) in rows:
        await _forget_call(tx, CallId(call_id))
    return len(rows)


async def _forget_call(tx: Tx, call_id: CallId) -> None:
    await tx.rev()
    await tx.run("delete_call_secret", call_id)
    try:
        call = await require_call(tx, call_id)
    except Unreadable:
        await tx.run("unlist_call", await tx.rev(), call_id)
        return
    if call.shown_pending:  # the model must keep reading that it was pending
        await put_call(tx, replace(call, later=None))
    else:
        await tx.run("delete_call", call_id)
