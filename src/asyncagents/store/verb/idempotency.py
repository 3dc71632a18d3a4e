"""Idempotency keys: the same key with the same content is a repeat, with other content a conflict."""

from typing import Literal, TypeAlias

from asyncagents.domain.body import check_names
from asyncagents.domain.conversation.codec import decode_session, upcast
from asyncagents.domain.id import SessionId
from asyncagents.errors import KeyReused
from asyncagents.store.tx import Tx

KeyKind: TypeAlias = Literal["input", "session", "abort"]
"""The kind of request that a key belongs to."""


async def check_key(tx: Tx, session_id: SessionId, kind: KeyKind, key: str, *, hash: str | None) -> bool:
    """Whether the key was used before. Raises `KeyReused` if its content was different."""
    row = await tx.one("idempotency", session_id, kind, key)
    if row is not None and None not in (row[0], hash) and row[0] != hash:
        raise KeyReused(key)
    return row is not None


async def save_key(tx: Tx, session_id: SessionId, kind: KeyKind, key: str, *, hash: str | None) -> None:
    """Store the content hash of a key."""
    await tx.run("keep_idempotency", session_id, kind, key, hash)


async def is_admitted(tx: Tx, session_id: SessionId, key: str) -> bool:
    """Whether input was admitted under this key."""
    check_names(session_id, key)
    return await tx.one("input_by_key", session_id, key) is not None


async def has_begun(tx: Tx, session_key: str, key: str) -> bool:
    """Whether a session was created under `session_key` and admitted input under `key`."""
    check_names(session_key, key)
    row = await tx.one("session_by_key", session_key)
    if row is None:
        return False
    return await is_admitted(tx, decode_session(upcast(row[1], row[0])).id, key)
