"""A session and its first input come to be together, or not at all."""

from msgspec.structs import replace

from asyncagents.domain.fact import Admit, Admitted
from asyncagents.domain.id import SessionId
from asyncagents.domain.session import Session
from asyncagents.store.tx import Tx
from asyncagents.store.verb.session import NewSession, create
from asyncagents.store.verb.signal import admit


async def begin(tx: Tx, new: NewSession, fact: Admit) -> tuple[Session, Admitted]:
    """If the session's key was used before, the input goes to the session that is there."""
    session = await create(tx, new)
    if session.id != fact.session_id:
        fact = _readdressed(fact, session.id)
    return session, await admit(tx, fact)


def _readdressed(fact: Admit, session_id: SessionId) -> Admit:
    return replace(
        fact,
        message=replace(fact.message, session_id=session_id),
        parts=tuple(replace(part, session_id=session_id) for part in fact.parts),
    )
