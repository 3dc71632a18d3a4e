"""Sessions that come in pieces: short transactions, and nothing to be seen before the last of them."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from asyncagents.domain.conversation.copy import ConversationCopy, PositionedMessage
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import MessageTime, UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import NewSession, Session, SessionQuery
from asyncagents.domain.event import Event, MessageUpdated, PartUpdated, SessionCreated
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.transfer.records import (
    ImportedMessage,
    ImportedPart,
    InputMark,
    MessageMark,
    SessionImport,
    SessionMark,
)
from asyncagents.errors import Conflict, NotFound, StoreError
from asyncagents.store.tx import Commit, Database, Row, Tx, Verb
from asyncagents.store.verb import copy
from asyncagents.store.verb import import_ as verb_bring
from asyncagents.store.verb.arrive import PIECE_ROWS, STALE_MS
from tests.support.store.lab import MODEL, POOL, Lab

MESSAGES = PIECE_ROWS
T = TypeVar("T")


def placed(lab: Lab, session_id: SessionId, count: int = MESSAGES) -> tuple[PositionedMessage, ...]:
    """Prompts of two parts each."""
    found = []
    for number in range(1, count + 1):
        message = UserMessage(
            id=lab.ids.message(),
            session_id=session_id,
            time=MessageTime(created=lab.clock.now()),
            agent="build",
            model=MODEL,
        )
        parts = tuple(
            TextPart(id=lab.ids.part(), session_id=session_id, message_id=message.id, text=f"{word} {number}")
            for word in ("first", "then")
        )
        found.append(PositionedMessage(MessageWithParts(info=message, parts=parts), number))
    return tuple(found)


def brought(lab: Lab, count: int = MESSAGES) -> SessionImport:
    info = lab.info()
    messages = placed(lab, info.id, count)
    return SessionImport(
        info=info,
        raw=encode(info),
        mark=SessionMark(turn=3),
        messages=tuple(
            ImportedMessage(
                info=each.entry.info,
                raw=encode(each.entry.info),
                mark=MessageMark(
                    position=each.position,
                    turn=1,
                    input=InputMark(key=each.entry.info.id, state="promoted", turn=1),
                ),
            )
            for each in messages
        ),
        parts=tuple(ImportedPart(part, encode(part)) for each in messages for part in each.entry.parts),
    )


class Dying:
    """A database of a process that ends: after so many transactions nothing is written any more."""

    def __init__(self, database: Database, after: int) -> None:
        self._database = database
        self._left = after

    async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
        self._left -= 1
        if self._left < 0:
            raise StoreError("the process has ended")
        return await self._database.write(verb, inline=inline)

    async def read(self, verb: Verb[T], *, inline: bool = False) -> T:
        return await self._database.read(verb, inline=inline)

    def listen(self, listener: Callable[[Commit], None]) -> None:
        self._database.listen(listener)


async def rows(lab: Lab, session_id: SessionId) -> list[Row]:
    async def ask(tx: Tx) -> list[Row]:
        return [*await tx.all("arrived_messages", session_id), *await tx.all("arrived_parts", session_id)]

    return await lab.database.read(ask)


async def bring(lab: Lab, new: SessionImport) -> str:
    return await lab.store.transfer.import_session(new, pool=POOL)


async def fork(lab: Lab, new: SessionImport) -> str:
    """The same as a copy."""
    texts = {part.part.message_id: [] for part in new.parts}  # type: dict[Any, list[Any]]
    for part in new.parts:
        texts[part.part.message_id].append(part.part)
    messages = tuple(
        PositionedMessage(
            MessageWithParts(info=each.info, parts=tuple(texts[each.info.id])), each.mark.position
        )
        for each in new.messages
    )
    made = await lab.store.conversation.copy_session(
        NewSession(info=new.info, pool=POOL), ConversationCopy(messages=messages)
    )
    return made.id


WAYS = (bring, fork)


@pytest.mark.spec("P-13")
@pytest.mark.parametrize("way", WAYS)
async def test_a_long_session_is_written_in_short_transactions_and_published_last(lab: Lab, way: Any) -> None:
    new = brought(lab)
    await way(lab, new)

    written = Counter(row[0] for row in await rows(lab, new.info.id))
    assert written.total() == 3 * MESSAGES
    assert max(written.values()) <= PIECE_ROWS
    assert len(written) >= 3
    about = [event for event in lab.events if event.session_id == new.info.id]
    assert isinstance(about[0], SessionCreated)
    assert Counter(map(type, about)) >= Counter({MessageUpdated: MESSAGES, PartUpdated: 2 * MESSAGES})
    entries = await lab.store.messages(new.info.id)
    assert [entry.text for entry in entries] == [f"first {n}\nthen {n}" for n in range(1, MESSAGES + 1)]


@pytest.mark.spec("P-13")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("died_after", [1, 2, 3, 5])
async def test_a_partly_written_session_is_invisible_and_the_next_try_replaces_it(
    lab: Lab, way: Any, died_after: int
) -> None:
    new = brought(lab)
    dying = Lab(Dying(lab.database, died_after), lab.clock, lab.ids)
    with pytest.raises(StoreError, match="ended"):
        await way(dying, new)

    assert (await rows(lab, new.info.id)) or died_after < 3
    with pytest.raises(NotFound):
        await lab.store.session(new.info.id)
    assert await lab.store.conversation.list_sessions(SessionQuery()) == ()
    assert await lab.store.transfer.session_ids() == ()

    shorter = replace(new, messages=new.messages[:-1], parts=new.parts[:-2])
    await way(lab, shorter)
    entries = await lab.store.messages(new.info.id)
    assert len(entries) == MESSAGES - 1
    assert len(await rows(lab, new.info.id)) == 3 * (MESSAGES - 1)


@pytest.mark.spec("P-13")
async def test_a_stale_partial_session_is_removed_by_the_next_import(lab: Lab) -> None:
    left, other, third = brought(lab), brought(lab), brought(lab)
    with pytest.raises(StoreError):
        await bring(Lab(Dying(lab.database, 4), lab.clock, lab.ids), left)
    await bring(lab, other)
    assert await rows(lab, left.info.id)
    lab.clock.advance(STALE_MS + 1)
    await bring(lab, third)
    assert await rows(lab, left.info.id) == []
    assert len(await rows(lab, other.info.id)) == 3 * MESSAGES


@pytest.mark.spec("P-13")
async def test_one_of_two_writers_of_a_session_gives_up_and_one_copy_is_stored(lab: Lab) -> None:
    new = brought(lab)

    class Overtaken(Dying):
        """Another process begins the same session before the third transaction."""

        async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
            self._left -= 1
            if self._left == 0:
                await bring(lab, new)
            return await self._database.write(verb, inline=inline)

    with pytest.raises(Conflict):
        await bring(Lab(Overtaken(lab.database, 4), lab.clock, lab.ids), new)
    assert len(await rows(lab, new.info.id)) == 3 * MESSAGES
    assert await bring(lab, new) == "already there"


@pytest.mark.spec("P-13")
@pytest.mark.parametrize("at", [1, 2, 3])
async def test_a_session_imported_by_another_process_meanwhile_stays_whole(lab: Lab, at: int) -> None:
    """Before the first transaction of a writer, or after it has begun and before its first piece."""
    new = brought(lab)

    class Overtaken(Dying):
        async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
            self._left -= 1
            if self._left == 0:
                await lab.database.write(lambda tx: verb_bring.import_session(tx, new, pool=POOL))
            return await self._database.write(verb, inline=inline)

    with suppress(Conflict):
        assert await bring(Lab(Overtaken(lab.database, at), lab.clock, lab.ids), new) == "already there"
    assert len(await rows(lab, new.info.id)) == 3 * MESSAGES


@pytest.mark.spec("P-13")
async def test_a_stalled_writer_cannot_continue_a_session_that_is_being_removed(lab: Lab) -> None:
    new, other = brought(lab), brought(lab)

    class Asleep(Dying):
        """Stands still before its third transaction; meanwhile another import removes one piece of it."""

        async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
            self._left -= 1
            if self._left == 0:
                lab.clock.advance(STALE_MS + 1)
                with suppress(StoreError):
                    await bring(Lab(Dying(lab.database, 3), lab.clock, lab.ids), other)
            return await self._database.write(verb, inline=inline)

    with pytest.raises(Conflict):
        await bring(Lab(Asleep(lab.database, 5), lab.clock, lab.ids), new)
    assert await bring(lab, new) == "imported"
    assert len(await rows(lab, new.info.id)) == 3 * MESSAGES


@pytest.mark.spec("P-13")
async def test_a_refused_import_leaves_no_rows(lab: Lab) -> None:
    there, new = brought(lab, 2), brought(lab)
    await bring(lab, there)
    taken = replace(new, parts=(*new.parts[:-1], there.parts[0]))
    with pytest.raises(Conflict, match="exists already, in another session"):
        await bring(lab, taken)
    assert await rows(lab, new.info.id) == []
    with pytest.raises(NotFound, match="parent"):
        await bring(lab, replace(new, info=replace(new.info, parent_id=lab.ids.session())))
    assert await rows(lab, new.info.id) == []


@pytest.mark.spec("P-13")
async def test_a_feed_cursor_between_two_pieces_leads_to_the_whole_session(lab: Lab) -> None:
    new = brought(lab)
    cursors: list[str] = []

    class Watched(Dying):
        async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
            cursors.append(await lab.store.cursor())
            return await self._database.write(verb, inline=inline)

    await bring(Lab(Watched(lab.database, 0), lab.clock, lab.ids), new)
    for cursor in cursors:
        told: list[Event] = []
        while (piece := await lab.store.feed(cursor)).events or piece.cursor != cursor:
            told += piece.events
            cursor = piece.cursor
        messages = {event.info.id for event in told if isinstance(event, MessageUpdated)}
        parts = {event.part.id for event in told if isinstance(event, PartUpdated)}
        assert len(messages) == MESSAGES
        assert len(parts) == 2 * MESSAGES


@pytest.mark.spec("X-01")
async def test_a_copy_in_pieces_is_the_same_as_one_in_one_transaction(lab: Lab) -> None:
    one, other = lab.info(), lab.info()
    made = ConversationCopy(messages=placed(lab, one.id), summary=7, tail=5)
    whole = ConversationCopy(messages=placed(lab, other.id), summary=7, tail=5)
    in_pieces = await lab.store.conversation.copy_session(NewSession(info=one, pool=POOL, key="one"), made)
    new = NewSession(info=other, pool=POOL, key="other")
    at_once: Session = await lab.database.write(lambda tx: copy.copy_session(tx, new, whole))

    def plain(session: Session) -> Session:
        return replace(session, id=SessionId(""), title="", slug="")

    assert plain(in_pieces) == plain(at_once)
    for read in (lab.store.messages, lab.store.history):
        assert [each.text for each in await read(one.id)] == [each.text for each in await read(other.id)]
    controls = [await lab.store.control(each) for each in (one.id, other.id)]
    assert len({(each.positions, each.summary, each.tail, each.state) for each in controls}) == 1
    again = NewSession(info=lab.info(), pool=POOL, key="one")
    assert (
        await lab.store.conversation.copy_session(
            again, ConversationCopy(messages=placed(lab, again.info.id))
        )
        == in_pieces
    )
    assert await rows(lab, again.info.id) == []
