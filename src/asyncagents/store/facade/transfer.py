"""Store facade for exports and imports."""

from asyncagents.domain.id import SessionId
from asyncagents.domain.transfer.records import SessionImport
from asyncagents.store.facade.piecewise import PiecewiseWriter
from asyncagents.store.verb import export, import_
from asyncagents.store.verb.arrive import PIECE_ROWS
from asyncagents.store.verb.export import ExportedMessage, ExportedSession
from asyncagents.store.verb.import_ import ImportOutcome


class TransferStore(PiecewiseWriter):
    async def session_ids(self, *, after: str = "", limit: int = 500) -> tuple[SessionId, ...]:
        """List session ids of all projects."""
        return await self._read(lambda tx: export.session_ids(tx, after=after, limit=limit))

    async def tree(self, session_id: SessionId) -> tuple[SessionId, ...]:
        """List a session and its descendants, parents first."""
        return await self._read(lambda tx: export.tree(tx, session_id))

    async def latest_revision(self, session_id: SessionId) -> int:
        """Read the newest revision of a session and what it holds; equal revisions mean nothing changed."""
        return await self._read(lambda tx: export.latest_revision(tx, session_id))

    async def session(self, session_id: SessionId) -> ExportedSession:
        return await self._read(lambda tx: export.session(tx, session_id))

    async def messages(
        self, session_id: SessionId, *, after: str = "", limit: int = 50
    ) -> tuple[ExportedMessage, ...]:
        """Read messages with their parts, in the order of their sort ids."""
        return await self._read(lambda tx: export.messages(tx, session_id, after=after, limit=limit))

    async def import_session(self, new: SessionImport, *, pool: str) -> ImportOutcome:
        """Write an imported session, all of it or nothing. A long one is written in pieces."""
        if import_.count_rows(new) <= PIECE_ROWS:
            return await self._write(lambda tx: import_.import_session(tx, new, pool=pool))
        if await self._read(lambda tx: import_.is_imported(tx, new)):
            return "already there"
        done: ImportOutcome | None = await self._write_in_pieces(
            new.info.id, import_.import_pieces(new), lambda tx: import_.complete_import(tx, new, pool=pool)
        )
        return "already there" if done is None else done
