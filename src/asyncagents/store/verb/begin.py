"""Creates a session together with its first input."""

from msgspec.structs import replace

from asyncagents.domain.fact import Admit, Admitted
from asyncagents.domain.id import SessionId
from asyncagents.domain.session import Session
from asyncagents.store.tx import Tx
from asyncagents.store.verb.session import NewSession, create
from asyncagents.store.verb.signal import admit


async def begin(tx: Tx, new: NewSession, fact: Admit) -> tuple[Session, Admitted]:
    """Create a session and admit its first input; if its key exists, the input goes to that session."""
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
