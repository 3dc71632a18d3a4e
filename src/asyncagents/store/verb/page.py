"""Reads pages of messages as the JSON bytes that are stored, without decoding them."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from asyncagents.domain.conversation.codec import (
    DECODE_ERRORS,
    Unreadable,
    decode_message,
    decode_session,
    unreadable_error,
    upcast,
)
from asyncagents.domain.conversation.entry import MessagePage
from asyncagents.domain.conversation.session import Session, SessionQuery
from asyncagents.domain.id import AFTER_ALL_IDS, MessageId, SessionId
from asyncagents.errors import NotFound
from asyncagents.store.row import require_session, sort_id_of
from asyncagents.store.tx import Tx


async def list_sessions(tx: Tx, query: SessionQuery) -> tuple[Session, ...]:
    """List sessions that match a query, the most recently used first; unreadable ones are left out."""
    search = query.search.casefold().replace("\0", "\ufffd")
    where = query.directory, query.below, query.roots, query.start, query.before
    found = []
    for info, version in await tx.all("sessions_listed", *where, search, query.archived, query.limit):
        with suppress(Unreadable):
            found.append(decode_session(upcast(version, info)))
    return tuple(found)


NO_LIMIT = -1
_json_decoder: msgspec.json.Decoder[msgspec.Raw] = msgspec.json.Decoder(msgspec.Raw)


async def message_page(
    tx: Tx, session_id: SessionId, *, before: str | None = None, limit: int | None = None
) -> MessagePage:
    """Read the newest `limit` messages before an id or sort id, or all of them, as JSON bytes."""
    await require_session(tx, session_id)
    wanted = NO_LIMIT if limit is None else limit + 1
    rows = await tx.all(
        "messages", session_id, await sort_id_of(tx, before) if before else AFTER_ALL_IDS, wanted
    )
    more = limit is not None and len(rows) > limit
    rows = rows[:limit]
    if not rows:
        return MessagePage(b"[]")
    _, info, version, oldest = rows[-1]
    parts: dict[str, list[bytes]] = defaultdict(list)
    for message_id, body, shape in await tx.all("page_parts", session_id, oldest, rows[0][3]):
        parts[message_id].append(_valid_json("part", shape, body))
    pieces: list[bytes] = []
    for each, raw, shape, _ in reversed(rows):
        pieces += b"," if pieces else b"[", *_entry_json(_valid_json("message", shape, raw), parts[each])
    body = b"".join((*pieces, b"]"))  # joined once: copying megabytes is what takes time here
    if not more:
        return MessagePage(body)
    return MessagePage(body, oldest, decode_message(upcast(version, info)).time.created)


async def message_json(tx: Tx, session_id: SessionId, message_id: MessageId) -> bytes:
    """Read one message with its parts as JSON bytes."""
    await require_session(tx, session_id)
    row = await tx.one("message", message_id)
    if row is None or row[1] != session_id:
        raise NotFound("message", message_id)
    parts = await tx.all("message_parts", message_id)
    sound = [_valid_json("part", shape, body) for body, shape in parts]
    return b"".join(_entry_json(_valid_json("message", row[6], row[5]), sound))


def _entry_json(info: bytes, parts: list[bytes]) -> Iterator[bytes]:
    yield b'{"info":'
    yield info
    yield b',"parts":['
    for number, part in enumerate(parts):
        if number:
            yield b","
        yield part
    yield b"]}"


def _valid_json(kind: str, version: int, raw: bytes) -> bytes:
    """Raise `Unreadable` for a row that is not JSON: it would break the array around it."""
    raw = upcast(version, raw)
    try:
        _json_decoder.decode(raw)
    except DECODE_ERRORS as error:
        raise unreadable_error(kind, raw, error) from error
    return raw
