"""Creates sessions, once per key."""

from msgspec.structs import replace

from asyncagents.domain.body import check_names, encode_body
from asyncagents.domain.conversation.codec import SHAPE_VERSION, decode_session, upcast
from asyncagents.domain.conversation.session import NewSession, Session, record_launch
from asyncagents.domain.event import SessionCreated
from asyncagents.domain.fact import Admit, AdmitResult
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Control
from asyncagents.errors import NotFound
from asyncagents.store.row import IDLE, SessionRow, find_session, list_columns
from asyncagents.store.tx import Tx
from asyncagents.store.verb.admit import admit_input
from asyncagents.store.verb.idempotency import check_key, save_key


async def create_session(tx: Tx, new: NewSession) -> Session:
    """Create a session; the same key, or the same id, again returns the existing one."""
    check_names(new.info.id, new.key, new.info.project_id, new.pool)
    known = await find_existing(tx, new)
    if known is not None:
        return known
    parent, info = await _parent(tx, new.info), new.info
    if parent is not None:
        info = record_launch(info, parent.info, agent=parent.info.agent)
    control = Control(
        info.id,
        info.parent_id,
        parent.control.root_id if parent else info.id,
        parent.control.depth + 1 if parent else 0,
        parent.control.pool if parent else new.pool,
    )
    await insert_session(tx, control, info, key=new.key)
    await save_session_key(tx, new)
    tx.emit(SessionCreated(session_id=control.id, info=info))
    return info


async def find_existing(tx: Tx, new: NewSession) -> Session | None:
    known = await find_by_key(tx, new.key, hash=new.hash) if new.key is not None else None
    if known is not None:
        return known
    found = await find_session(tx, new.info.id)
    return found.info if found else None


async def find_by_key(tx: Tx, key: str, *, hash: str | None) -> Session | None:
    """Find the session created under a key. Raises `KeyReused` if its content was different."""
    check_names(key)
    row = await tx.one("session_by_key", key)
    if row is None:
        return None
    known = decode_session(upcast(row[1], row[0]))
    await check_key(tx, known.id, "session", key, hash=hash)
    return known


async def save_session_key(tx: Tx, new: NewSession) -> None:
    """Store the content hash of a session that was created under a key."""
    if new.key is not None and new.hash is not None:
        await save_key(tx, new.info.id, "session", new.key, hash=new.hash)


async def _parent(tx: Tx, info: Session) -> SessionRow | None:
    if info.parent_id is None:
        return None
    parent = await find_session(tx, info.parent_id)
    if parent is None:
        raise NotFound("parent session", info.parent_id)
    return parent


async def insert_session(
    tx: Tx, control: Control, info: Session, *, key: str | None = None, status: str = IDLE
) -> None:
    await tx.one(
        "insert_session",
        control.id,
        control.parent_id,
        control.root_id,
        control.depth,
        control.pool,
        control.state,
        control.wake_seq,
        control.fence,
        control.owner,
        control.turn,
        control.turn_rev,
        control.in_turn,
        control.cancel_rev,
        control.blocked_turn,
        control.claims,
        control.positions,
        status,
        encode_body(info),
        SHAPE_VERSION,
        key,
        info.project_id,
        await tx.rev(),
        info.directory,
        *list_columns(info),
    )


async def begin_session(tx: Tx, new: NewSession, fact: Admit) -> tuple[Session, AdmitResult]:
    """Create a session and admit its first input; the same keys again change nothing.

    If only the key of the session exists, the input goes to that session.
    """
    session = await create_session(tx, new)
    if session.id != fact.session_id:
        fact = _for_session(fact, session.id)
    return session, await admit_input(tx, fact)


def _for_session(fact: Admit, session_id: SessionId) -> Admit:
    return replace(
        fact,
        message=replace(fact.message, session_id=session_id),
        parts=tuple(replace(part, session_id=session_id) for part in fact.parts),
    )
