"""Whether something was admitted before, under its key."""

from asyncagents.domain.codec import decode_session, upcast
from asyncagents.domain.id import SessionId
from asyncagents.store.body import check_names
from asyncagents.store.tx import Tx


async def is_known(tx: Tx, session_id: SessionId, key: str) -> bool:
    check_names(session_id, key)
    return await tx.one("input_by_key", session_id, key) is not None


async def has_begun(tx: Tx, session_key: str, key: str) -> bool:
    """A session of this key with an input of that key."""
    check_names(session_key, key)
    row = await tx.one("session_by_key", session_key)
    if row is None:
        return False
    return await is_known(tx, decode_session(upcast(row[1], row[0])).id, key)
