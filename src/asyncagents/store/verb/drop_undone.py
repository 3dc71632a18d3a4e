"""Deletes what was undone as soon as the next input is admitted; the model never reads it again."""

from msgspec.structs import replace

from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import CompactionPart
from asyncagents.domain.conversation.session import Revert
from asyncagents.domain.event import MessageRemoved, PartRemoved
from asyncagents.domain.id import AFTER_ALL_IDS, MessageId, PartId, SessionId
from asyncagents.domain.session_state import Control
from asyncagents.domain.shape import encode
from asyncagents.store.row import SessionRow, require_message, save_session, sort_id_of
from asyncagents.store.tx import Tx


async def drop_undone(tx: Tx, row: SessionRow) -> SessionRow:
    """Delete what an undo marked, and the mark with its file summary."""
    revert = row.info.revert
    if revert is None:
        return row
    session_id = row.control.id
    first = await tx.one("place_of", revert.message_id)
    since = await sort_id_of(tx, revert.message_id)
    for (message_id,) in await tx.all("messages_between", session_id, since, revert.through or AFTER_ALL_IDS):
        if revert.part_id is not None and message_id == revert.message_id:
            await _remove_parts(tx, session_id, revert)
        else:
            await delete_message_rows(tx, session_id, message_id)
    place = first[0] if first is not None else None
    control = row.control if place is None else await _restore_summary(tx, row.control, place, revert)
    return await save_session(tx, row, control, replace(row.info, revert=None, summary=None))


async def delete_message_rows(tx: Tx, session_id: SessionId, message_id: MessageId) -> None:
    """Delete a message and its parts, and publish that."""
    rev = await tx.rev()
    await tx.run("undo_parts", message_id, "")
    await tx.run("undo_message", message_id)
    await tx.run("undo_input", rev, message_id)
    gone = MessageRemoved(session_id=session_id, message_id=message_id)
    await tx.one("insert_tombstone", rev, "message", message_id, encode(gone))
    tx.emit(gone)


async def _remove_parts(tx: Tx, session_id: SessionId, revert: Revert) -> None:
    assert revert.part_id is not None, "else the whole message is deleted"
    message_id = revert.message_id
    doomed = [PartId(row[0]) for row in await tx.all("part_ids", message_id) if row[0] >= revert.part_id]
    await tx.run("undo_parts", message_id, revert.part_id)
    for part_id in doomed:
        gone = PartRemoved(session_id=session_id, message_id=message_id, part_id=part_id)
        await tx.one("insert_tombstone", await tx.rev(), "part", part_id, encode(gone))
        tx.emit(gone)


async def _restore_summary(tx: Tx, control: Control, place: int, revert: Revert) -> Control:
    """Forget a deleted or requested summary; the summary before it counts again."""
    control = replace(control, compacting=0)
    if control.summary < place:
        return control
    before = await tx.one("last_summary", control.id, place)
    if before is None:
        return replace(control, summary=0, tail=0)
    message = decode_message(upcast(before[2], before[1]))
    assert isinstance(message, AssistantMessage), "a summary is an assistant message"
    asked = await require_message(tx, message.parent_id)
    starts = [part.tail_start_id for part in asked.parts if isinstance(part, CompactionPart)]
    tail_row = await tx.one("place_of", starts[0]) if starts and starts[0] else None
    return replace(control, summary=before[0], tail=tail_row[0] if tail_row and tail_row[0] else before[0])
