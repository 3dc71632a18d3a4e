"""A session that begins with a copy of another's conversation; what its calls came to is text there."""

from collections import defaultdict

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.codec import UnknownPart, decode_message, upcast
from asyncagents.domain.control import Control
from asyncagents.domain.duplicate import Duplicate, Placed
from asyncagents.domain.event import SessionCreated
from asyncagents.domain.history import Entry
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.message import AssistantMessage, UserMessage
from asyncagents.domain.part import Part
from asyncagents.domain.session import Session, Tokens
from asyncagents.domain.shape import encode
from asyncagents.errors import NotFound
from asyncagents.store.body import check_names
from asyncagents.store.row import insert_message, put_part, read_part, the_session
from asyncagents.store.tx import Tx
from asyncagents.store.verb.page import LAST
from asyncagents.store.verb.session import NewSession, existing, insert_session
from asyncagents.store.verb.signal import addressed


class Source(Struct, frozen=True):
    info: Session
    messages: tuple[Placed, ...]
    """In the order of their ids."""


async def source(tx: Tx, session_id: SessionId, before: MessageId | None) -> Source:
    """What is copied: all that people see before a message. What was cut off and tried again is not."""
    info = (await the_session(tx, session_id)).info
    undone = info.revert if before is None else None
    if undone is not None and undone.part_id is None:
        before = undone.message_id  # nobody sees what comes after it
    if before is not None:
        row = await tx.one("message", before)
        if row is None or row[1] != session_id:
            raise NotFound("message", before)
    rows = await tx.all("copied_messages", session_id, before or LAST)
    if undone is not None:
        rows = [row for row in rows if row[0] <= undone.message_id]
    if not rows:
        return Source(info, ())
    parts: dict[str, list[Part | UnknownPart]] = defaultdict(list)
    for message_id, *kept in await tx.all("page_parts", session_id, rows[0][0], rows[-1][0]):
        part = read_part(tuple(kept))
        if undone is None or message_id != undone.message_id or (part.id or "") < (undone.part_id or ""):
            parts[message_id].append(part)
    return Source(
        info,
        tuple(
            Placed(Entry(info=decode_message(upcast(version, raw)), parts=tuple(parts[each])), position)
            for each, position, raw, version in rows
        ),
    )


async def copy(tx: Tx, new: NewSession, made: Duplicate) -> Session:
    """The same key again gives the copy that is there. It goes on with whom it was spoken to last."""
    check_names(new.info.id, new.key)
    known = await existing(tx, new)
    if known is not None:
        return known
    info = new.info
    asked = [each.entry.info for each in made.messages if isinstance(each.entry.info, UserMessage)]
    if asked:
        info = addressed(info, asked[-1])
    control = Control(info.id, None, info.id, 0, new.pool)
    await insert_session(tx, replace(control, positions=len(made.messages)), info, key=new.key)
    if made.summary:
        await tx.one("begin_summed", made.summary, made.tail, info.id)
    tx.emit(SessionCreated(session_id=info.id, info=info))
    for each in made.messages:
        await insert_message(tx, each.entry.info, position=each.position, turn=0)
        for part in each.entry.parts:
            await put_part(tx, part)
    await _last_step(tx, made)
    return info


async def _last_step(tx: Tx, made: Duplicate) -> None:
    """What the model has read begins and ends as if it had been asked here."""
    steps = [each for each in made.messages if isinstance(each.entry.info, AssistantMessage)]
    if not steps:
        return
    last = max(steps, key=lambda each: each.position or 0).entry.info
    columns = tx.ids.request(), last.session_id, last.id, 0
    await tx.run("import_request", *columns, encode(Tokens.zero()), last.time.created)  # paid for elsewhere
