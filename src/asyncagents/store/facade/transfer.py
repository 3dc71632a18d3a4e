"""Store facade for exports and imports."""

from asyncagents.domain.id import SessionId
from asyncagents.domain.transfer.records import Brought
from asyncagents.store.facade.piecewise import Piecewise
from asyncagents.store.verb import export, import_
from asyncagents.store.verb.arrive import ROWS
from asyncagents.store.verb.export import MessageOut, SessionOut
from asyncagents.store.verb.import_ import Outcome


class TransferStore(Piecewise):
    async def session_ids(self, *, after: str = "", limit: int = 500) -> tuple[SessionId, ...]:
        """List session ids of all projects."""
        return await self._read(lambda tx: export.session_ids(tx, after=after, limit=limit))

    async def tree(self, session_id: SessionId) -> tuple[SessionId, ...]:
        """List a session and its descendants, parents first."""
        return await self._read(lambda tx: export.tree(tx, session_id))

    async def change(self, session_id: SessionId) -> int:
        """Read the newest revision of a session and what it holds; equal revisions mean nothing changed."""
        return await self._read(lambda tx: export.change(tx, session_id))

    async def session(self, session_id: SessionId) -> SessionOut:
        return await self._read(lambda tx: export.session(tx, session_id))

    async def messages(
        self, session_id: SessionId, *, after: str = "", limit: int = 50
    ) -> tuple[MessageOut, ...]:
        """Read messages with their parts, in the order of their sort ids."""
        return await self._read(lambda tx: export.messages(tx, session_id, after=after, limit=limit))

    async def bring(self, new: Brought, *, pool: str) -> Outcome:
        """Write an imported session, all of it or nothing. A long one is written in pieces."""
        if import_.count_rows(new) <= ROWS:
            return await self._write(lambda tx: import_.bring(tx, new, pool=pool))
        if await self._read(lambda tx: import_.is_there(tx, new)):
            return "already there"
        done: Outcome | None = await self._write_in_pieces(
            new.info.id, import_.pieces(new), lambda tx: import_.complete(tx, new, pool=pool)
        )
        return "already there" if done is None else done
