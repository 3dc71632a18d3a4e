"""Copies a session's messages into a new session; calls are copied as parts only."""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.body import check_names, encode_body
from asyncagents.domain.conversation.codec import SHAPE_VERSION, UnknownPart, decode_message, upcast
from asyncagents.domain.conversation.copy import ConversationCopy, PositionedMessage
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import AssistantMessage, UserMessage
from asyncagents.domain.conversation.part import Part
from asyncagents.domain.conversation.session import NewSession, Session, Tokens
from asyncagents.domain.event import MessageUpdated, PartUpdated, SessionCreated
from asyncagents.domain.id import AFTER_ALL_IDS, MessageId, SessionId
from asyncagents.domain.session_state import Control
from asyncagents.domain.shape import encode
from asyncagents.errors import Conflict, NotFound
from asyncagents.store.row import insert_message, read_part, require_session, sort_id_of
from asyncagents.store.tx import Tx, Verb
from asyncagents.store.verb.arrive import PIECE_ROWS
from asyncagents.store.verb.inbox import with_agent_and_model
from asyncagents.store.verb.session import find_existing, insert_session, save_session_key


class CopySource(Struct, frozen=True):
    info: Session
    messages: tuple[PositionedMessage, ...]
    """The messages in the order in which clients read them."""


async def copy_source(tx: Tx, session_id: SessionId, *, before: MessageId | None = None) -> CopySource:
    """Read what a copy holds: all messages that people see before one; hidden tries are left out."""
    info = (await require_session(tx, session_id)).info
    undone = info.revert if before is None else None
    if undone is not None and undone.part_id is None:
        before = undone.message_id  # what comes after it is undone
    if before is not None:
        row = await tx.one("message", before)
        if row is None or row[1] != session_id:
            raise NotFound("message", before)
    rows = await tx.all(
        "copied_messages", session_id, await sort_id_of(tx, before) if before else AFTER_ALL_IDS
    )
    if undone is not None:
        last = await sort_id_of(tx, undone.message_id)
        rows = [row for row in rows if row[4] <= last]
    if not rows:
        return CopySource(info, ())
    parts: dict[str, list[Part | UnknownPart]] = defaultdict(list)
    for message_id, *columns in await tx.all("page_parts", session_id, rows[0][4], rows[-1][4]):
        part = read_part(tuple(columns))
        if undone is None or message_id != undone.message_id or (part.id or "") < (undone.part_id or ""):
            parts[message_id].append(part)
    return CopySource(
        info,
        tuple(
            PositionedMessage(
                MessageWithParts(info=decode_message(upcast(version, raw)), parts=tuple(parts[each])),
                position,
            )
            for each, position, raw, version, _ in rows
        ),
    )


async def copy_session(tx: Tx, new: NewSession, copy: ConversationCopy) -> Session:
    """Write a copy; the same key again returns the first one. It keeps the last agent and model addressed."""
    check_names(new.info.id, new.key)
    known = await find_existing(tx, new)
    if known is not None:
        return known
    info = await _insert_session(tx, new, copy)
    for each in copy.messages:
        await _insert(tx, each)
    await _complete(tx, info, copy)
    return info


def count_rows(copy: ConversationCopy) -> int:
    return sum(1 + len(each.entry.parts) for each in copy.messages)


def copy_pieces(copy: ConversationCopy) -> Iterator[Verb[None]]:
    """Yield verbs that write the messages and parts of a copy before its session row, some rows each."""
    piece: list[PositionedMessage] = []
    rows = 0
    for each in copy.messages:
        size = 1 + len(each.entry.parts)
        if piece and rows + size > PIECE_ROWS:
            yield partial(_insert_all, tuple(piece))
            piece, rows = [], 0
        piece.append(each)
        rows += size
    yield partial(_insert_all, tuple(piece))


async def complete_copy(tx: Tx, new: NewSession, copy: ConversationCopy) -> Session | None:
    """Write the session row of a copy whose messages are written; None: the key or id exists already."""
    check_names(new.info.id, new.key)
    if await find_existing(tx, new) is not None:
        return None
    info = await _insert_session(tx, new, copy)
    await _complete(tx, info, copy)
    return info


async def _insert_session(tx: Tx, new: NewSession, copy: ConversationCopy) -> Session:
    info = new.info
    asked = [each.entry.info for each in copy.messages if isinstance(each.entry.info, UserMessage)]
    if asked:
        info = with_agent_and_model(info, asked[-1])
    control = Control(info.id, None, info.id, 0, new.pool)
    await insert_session(tx, replace(control, positions=len(copy.messages)), info, key=new.key)
    await save_session_key(tx, new)
    return info


async def _insert_all(messages: tuple[PositionedMessage, ...], tx: Tx) -> None:
    for each in messages:
        await _insert(tx, each)


async def _insert(tx: Tx, new: PositionedMessage) -> None:
    rev = await tx.rev()
    await insert_message(tx, new.entry.info, position=new.position, turn=0, publish=False)
    for part in new.entry.parts:
        columns = part.id, part.message_id, part.session_id
        if not await tx.run("import_part", *columns, encode_body(part), SHAPE_VERSION, rev):
            raise Conflict(f"part id {part.id!r} is taken; copy the session again")


async def _complete(tx: Tx, info: Session, copy: ConversationCopy) -> None:
    if copy.summary:
        await tx.one("begin_summed", copy.summary, copy.tail, info.id)
    tx.emit(SessionCreated(session_id=info.id, info=info))
    for each in copy.messages:
        tx.emit(MessageUpdated(session_id=info.id, info=each.entry.info))
        for part in each.entry.parts:
            tx.emit(PartUpdated(session_id=info.id, part=part, time=tx.now))
    await _insert_last_request(tx, copy)


async def _insert_last_request(tx: Tx, copy: ConversationCopy) -> None:
    """Insert a request for the last step, so that the history before it counts as final."""
    steps = [each for each in copy.messages if isinstance(each.entry.info, AssistantMessage)]
    if not steps:
        return
    last = max(steps, key=lambda each: each.position or 0).entry.info
    columns = tx.ids.request(), last.session_id, last.id, 0
    await tx.run("import_request", *columns, encode(Tokens.zero()), last.time.created)  # paid there
