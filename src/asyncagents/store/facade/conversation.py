"""Store facade for clients that list, read, update and copy sessions and their messages."""

from asyncagents.domain.conversation.copy import Duplicate
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.conversation.session import Session, SessionQuery
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.store.facade.piecewise import Piecewise
from asyncagents.store.verb import copy, edit_message, page, session_update
from asyncagents.store.verb.arrive import ROWS
from asyncagents.store.verb.copy import Source
from asyncagents.store.verb.page import Page
from asyncagents.store.verb.session import NewSession, existing, find_by_key
from asyncagents.store.verb.session_update import Change


class ConversationStore(Piecewise):
    async def listing(self, query: SessionQuery) -> tuple[Session, ...]:
        """List sessions, the most recently used first."""
        return await self._read(lambda tx: page.listing(tx, query))

    async def page(
        self, session_id: SessionId, *, before: str | None = None, limit: int | None = None
    ) -> Page:
        """Read the newest `limit` messages before an id, or all of them, as JSON bytes."""
        return await self._read(lambda tx: page.page(tx, session_id, before=before, limit=limit))

    async def message(self, session_id: SessionId, message_id: MessageId) -> bytes:
        return await self._read(lambda tx: page.one(tx, session_id, message_id))

    async def change(self, session_id: SessionId, new: Change) -> Session:
        return await self._write(lambda tx: session_update.change(tx, session_id, new))

    async def source(self, session_id: SessionId, *, before: MessageId | None = None) -> Source:
        """Read the session and the messages that a copy is made of."""
        return await self._read(lambda tx: copy.source(tx, session_id, before))

    async def made_before(self, key: str, *, hash: str | None) -> Session | None:
        """Find the session created under a key. Raises `KeyReused` if its content was different."""
        return await self._glance(lambda tx: find_by_key(tx, key, hash=hash))

    async def copy(self, new: NewSession, made: Duplicate) -> Session:
        """Write a copy; the same key again returns the first copy. A long one is written in pieces."""
        if copy.count_rows(made) <= ROWS:
            return await self._write(lambda tx: copy.copy(tx, new, made))
        known = await self._read(lambda tx: existing(tx, new))
        if known is not None:
            return known
        done = await self._write_in_pieces(
            new.info.id, copy.pieces(made), lambda tx: copy.complete(tx, new, made)
        )
        return done or await self.copy(new, made)

    async def remove_message(self, session_id: SessionId, message_id: MessageId) -> None:
        """Raises `SessionBusy` unless the session rests; so do `remove_part` and `update_part`."""
        await self._write(lambda tx: edit_message.remove_message(tx, session_id, message_id))

    async def remove_part(self, session_id: SessionId, message_id: MessageId, part_id: PartId) -> None:
        await self._write(lambda tx: edit_message.remove_part(tx, session_id, message_id, part_id))

    async def change_part(self, part: Part) -> Part:
        return await self._write(lambda tx: edit_message.change_part(tx, part))
