"""Lists sessions, the most recently used first."""

from contextlib import suppress

from asyncagents.domain.codec import Unreadable, decode_session, upcast
from asyncagents.domain.listing import SessionQuery
from asyncagents.domain.session import Session
from asyncagents.store.tx import Tx


async def listing(tx: Tx, query: SessionQuery) -> tuple[Session, ...]:
    """List sessions that match a query; unreadable ones are left out."""
    search = query.search.casefold().replace("\0", "\ufffd")
    where = query.directory, query.below, query.roots, query.start, query.before
    found = []
    for info, version in await tx.all("sessions_listed", *where, search, query.archived, query.limit):
        with suppress(Unreadable):
            found.append(decode_session(upcast(version, info)))
    return tuple(found)
