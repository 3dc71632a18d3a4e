"""Store facade for clients that list, read, update and copy sessions and their messages."""

from asyncagents.domain.conversation.copy import ConversationCopy
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.conversation.session import Session, SessionQuery
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.store.facade.piecewise import PiecewiseWriter
from asyncagents.store.verb import copy, edit_message, page, session_update
from asyncagents.store.verb.arrive import PIECE_ROWS
from asyncagents.store.verb.copy import CopySource
from asyncagents.store.verb.page import MessagePage
from asyncagents.store.verb.session import NewSession, find_by_key, find_existing
from asyncagents.store.verb.session_update import SessionChanges


class ConversationStore(PiecewiseWriter):
    async def list_sessions(self, query: SessionQuery) -> tuple[Session, ...]:
        """List sessions, the most recently used first."""
        return await self._read(lambda tx: page.list_sessions(tx, query))

    async def page(
        self, session_id: SessionId, *, before: str | None = None, limit: int | None = None
    ) -> MessagePage:
        """Read the newest `limit` messages before an id, or all of them, as JSON bytes."""
        return await self._read(lambda tx: page.message_page(tx, session_id, before=before, limit=limit))

    async def message(self, session_id: SessionId, message_id: MessageId) -> bytes:
        return await self._read(lambda tx: page.message_json(tx, session_id, message_id))

    async def update_session(self, session_id: SessionId, new: SessionChanges) -> Session:
        return await self._write(lambda tx: session_update.update_session(tx, session_id, new))

    async def copy_source(self, session_id: SessionId, *, before: MessageId | None = None) -> CopySource:
        """Read the session and the messages that a copy is made of."""
        return await self._read(lambda tx: copy.copy_source(tx, session_id, before))

    async def session_by_key(self, key: str, *, hash: str | None) -> Session | None:
        """Find the session created under a key. Raises `KeyReused` if its content was different."""
        return await self._read_inline(lambda tx: find_by_key(tx, key, hash=hash))

    async def copy_session(self, new: NewSession, made: ConversationCopy) -> Session:
        """Write a copy; the same key again returns the first copy. A long one is written in pieces."""
        if copy.count_rows(made) <= PIECE_ROWS:
            return await self._write(lambda tx: copy.copy_session(tx, new, made))
        known = await self._read(lambda tx: find_existing(tx, new))
        if known is not None:
            return known
        done = await self._write_in_pieces(
            new.info.id, copy.copy_pieces(made), lambda tx: copy.complete_copy(tx, new, made)
        )
        return done or await self.copy_session(new, made)

    async def remove_message(self, session_id: SessionId, message_id: MessageId) -> None:
        """Raises `SessionBusy` unless the session rests; so do `remove_part` and `update_part`."""
        await self._write(lambda tx: edit_message.remove_message(tx, session_id, message_id))

    async def remove_part(self, session_id: SessionId, message_id: MessageId, part_id: PartId) -> None:
        await self._write(lambda tx: edit_message.remove_part(tx, session_id, message_id, part_id))

    async def update_part(self, part: Part) -> Part:
        return await self._write(lambda tx: edit_message.update_part(tx, part))
