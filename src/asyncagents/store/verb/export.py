"""Reads a session for an export, a piece at a time."""

from typing import Any

import msgspec

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.codec import DECODE_ERRORS, Unreadable, unreadable_error
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.task.task import TaskEnd
from asyncagents.domain.transfer.call_records import call_mark
from asyncagents.domain.transfer.records import (
    ExportedMessage,
    ExportedPart,
    ExportedSession,
    InputMark,
    MessageMark,
    NoticeMark,
    PartMark,
    SessionMark,
)
from asyncagents.errors import NotFound
from asyncagents.store.row import decode_call
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.notice import open_notices


async def session_ids(tx: Tx, *, after: str = "", limit: int = 500) -> tuple[SessionId, ...]:
    """List session ids of all projects."""
    return tuple(SessionId(row[0]) for row in await tx.all("sessions_after", after, limit))


async def tree(tx: Tx, session_id: SessionId) -> tuple[SessionId, ...]:
    """List a session and its descendants, parents first."""
    found = tuple(SessionId(row[0]) for row in await tx.all("subtree", session_id))
    if not found:
        raise NotFound("session", session_id)
    return found


async def latest_revision(tx: Tx, session_id: SessionId) -> int:
    """Read the newest revision of a session and what it holds; exports at the same revision are equal."""
    row = await tx.one("change_of_session", session_id)
    if row is None or row[0] is None:
        raise NotFound("session", session_id)
    return int(row[0])


async def session(tx: Tx, session_id: SessionId) -> ExportedSession:
    row = await tx.one("exported_session", session_id)
    if row is None:
        raise NotFound("session", session_id)
    raw, version, turn, in_turn, blocked_turn, steps, compacting, summary, tail, crowd, _ = row
    task, todos = await tx.one("task", session_id), await tx.one("todos", session_id)
    mark = SessionMark(
        turn=turn,
        in_turn=bool(in_turn),
        blocked_turn=blocked_turn,
        steps=steps,
        compacting=compacting,
        summary=summary,
        tail=tail,
        crowd=crowd,
        task=_decode_object("task", task[0]) if task else None,
        notices=tuple(_notice(each) for each in await open_notices(tx, session_id)),
        version=version,
    )
    return ExportedSession(session_id, raw, mark, todos[0] if todos else None)


def _notice(row: Row) -> NoticeMark:
    try:
        return NoticeMark(end=msgspec.json.decode(row[3], type=TaskEnd))
    except DECODE_ERRORS as error:
        raise unreadable_error("notice", row[3], error) from error


async def messages(
    tx: Tx, session_id: SessionId, *, after: str = "", limit: int = 50
) -> tuple[ExportedMessage, ...]:
    """Read the messages after a sort id, in the order in which clients read them."""
    rows = await tx.all("exported_messages", session_id, after, limit)
    return tuple([await _message(tx, row) for row in rows])


async def _message(tx: Tx, row: Row) -> ExportedMessage:
    message_id, raw, version, position, turn, hidden, key, state, source, promoted, answer_id, sort_id = row
    given = None
    if key is not None:
        given = InputMark(key=key, state=state, source=source, turn=promoted, answer_id=answer_id)
    mark = MessageMark(position=position, turn=turn, hidden=bool(hidden), input=given, version=version)
    parts = await tx.all("exported_parts", message_id)
    return ExportedMessage(MessageId(message_id), sort_id, raw, mark, tuple(_part(each) for each in parts))


def _part(row: Row) -> ExportedPart:
    part_id, raw, version, body, call_version = row
    call = _decode_readable((body, call_version)) if body is not None else None
    mark = PartMark(call=call_mark(call) if call else None, version=version)
    return ExportedPart(part_id, raw, mark, call)


def _decode_readable(row: Row) -> Call | None:
    """Decode a call; None if a newer program wrote it: its part holds what is known."""
    try:
        return decode_call(row)
    except Unreadable:
        return None


def _decode_object(kind: str, raw: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except DECODE_ERRORS as error:
        raise unreadable_error(kind, raw, error) from error
