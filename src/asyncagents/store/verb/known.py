"""Looks up whether input was admitted under a key."""

from asyncagents.domain.codec import decode_session, upcast
from asyncagents.domain.id import SessionId
from asyncagents.store.body import check_names
from asyncagents.store.tx import Tx


async def is_known(tx: Tx, session_id: SessionId, key: str) -> bool:
    check_names(session_id, key)
    return await tx.one("input_by_key", session_id, key) is not None


async def has_begun(tx: Tx, session_key: str, key: str) -> bool:
    """Whether a session was created under `session_key` and admitted input under `key`."""
    check_names(session_key, key)
    row = await tx.one("session_by_key", session_key)
    if row is None:
        return False
    return await is_known(tx, decode_session(upcast(row[1], row[0])).id, key)
