"""Removes messages and parts, or changes parts, only while their session rests and no run reads them."""

from msgspec.structs import replace

from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import Part, ToolCompleted, ToolFailed, ToolPart, ToolPending
from asyncagents.domain.event import PartRemoved
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.domain.session_state import Control
from asyncagents.domain.shape import encode
from asyncagents.errors import Conflict, InvalidInput, NotFound, SessionBusy
from asyncagents.store.row import (
    SessionRow,
    put_part,
    read_part,
    require_session,
    save_session,
    unsettled_calls,
)
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.cancel import cancel
from asyncagents.store.verb.drop_undone import delete_message_rows
from asyncagents.store.verb.settle import dismiss
from asyncagents.store.verb.task import live_tasks_of
from asyncagents.store.verb.task_end import CONSUMED

REMOVED = "The message that made this call was removed."


async def require_at_rest(tx: Tx, session_id: SessionId) -> SessionRow:
    """Raise unless the session rests: what was sent to a provider must not change within a turn."""
    row = await require_session(tx, session_id)
    control = row.control
    if control.state != "idle" or control.in_turn or control.backoff is not None:
        raise SessionBusy(session_id)
    if row.info.revert is not None:
        raise Conflict("part of this session is undone: redo it, or send a prompt, which deletes it")
    return row


async def remove_message(tx: Tx, session_id: SessionId, message_id: MessageId) -> None:
    """Remove a message with its parts; settles its open calls and ends the tasks that it launched first.

    Raises `SessionBusy` unless the session rests; so do `remove_part` and `update_part`.
    """
    await require_at_rest(tx, session_id)
    found = await _require_message(tx, session_id, message_id)
    await _end_work(tx, session_id, message_id)
    row = await require_session(tx, session_id)
    control = await _without_summary(tx, row.control, found)
    await delete_message_rows(tx, session_id, message_id)
    if control is not row.control:
        await save_session(tx, row, control)


async def remove_part(tx: Tx, session_id: SessionId, message_id: MessageId, part_id: PartId) -> None:
    await require_at_rest(tx, session_id)
    await _require_part(tx, session_id, message_id, part_id)
    await _end_work(tx, session_id, message_id, part_id)
    await tx.run("remove_part", part_id)
    gone = PartRemoved(session_id=session_id, message_id=message_id, part_id=part_id)
    await tx.one("insert_tombstone", await tx.rev(), "part", part_id, encode(gone))
    tx.emit(gone)


async def update_part(tx: Tx, part: Part) -> Part:
    """Replace a part by one of the same type; of a tool part only the state may change."""
    await require_at_rest(tx, part.session_id)
    known = read_part(await _require_part(tx, part.session_id, part.message_id, part.id))
    if type(known) is not type(part):
        raise InvalidInput("the type of a part cannot change: remove it, or send it with its own type")
    if isinstance(part, ToolPart) and isinstance(known, ToolPart):
        _check_call(known, part)
    await put_part(tx, part)
    return part


def _check_call(known: ToolPart, new: ToolPart) -> None:
    if (known.call_id, known.tool) != (new.call_id, new.tool):
        raise InvalidInput("the callID and the tool of a tool part cannot change: send them as they are")
    for state in (known.state, new.state):
        if not isinstance(state, ToolCompleted | ToolFailed):
            raise InvalidInput(
                "a tool part can change only once it is completed or failed, and to such a state"
            )


async def _require_message(tx: Tx, session_id: SessionId, message_id: MessageId) -> Row:
    row = await tx.one("message", message_id)
    if row is None or row[1] != session_id:
        raise NotFound("message", message_id)
    return row


async def _require_part(tx: Tx, session_id: SessionId, message_id: MessageId, part_id: PartId) -> Row:
    await _require_message(tx, session_id, message_id)
    row = await tx.one("part", part_id)
    if row is None or row[2] != message_id:
        raise NotFound("part", part_id)
    return row


async def _end_work(
    tx: Tx, session_id: SessionId, message_id: MessageId, part_id: PartId | None = None
) -> None:
    """Dismiss the open calls and cancel the live tasks of a message, or of one part of it."""
    info = (await require_session(tx, session_id)).info
    for call in await unsettled_calls(tx, session_id):
        if call.message_id == message_id and part_id in (None, call.part_id):
            await dismiss(tx, info, call, REMOVED)
    launched = None if part_id is None else await _launched_session(tx, part_id)
    for task in await live_tasks_of(tx, session_id):
        if task.message_id == message_id and (part_id is None or task.id == launched):
            await cancel(tx, task.id, notice=CONSUMED)


async def _launched_session(tx: Tx, part_id: PartId) -> object:
    """The id of the session that the call of a part launched, if any."""
    row = await tx.one("part", part_id)
    part = read_part(row) if row else None
    if not isinstance(part, ToolPart) or isinstance(part.state, ToolPending):
        return None
    return (part.state.metadata or {}).get("sessionId")


async def _without_summary(tx: Tx, control: Control, gone: Row) -> Control:
    """Forget the newest summary if it, or its request, is removed: the model reads the full history."""
    if not control.summary:
        return control
    found = await tx.one("message_at", control.id, control.summary)
    row = await tx.one("message", found[0]) if found else None
    summary = decode_message(upcast(row[6], row[5])) if row else None
    if isinstance(summary, AssistantMessage) and gone[0] not in (summary.id, summary.parent_id):
        return control
    return replace(control, summary=0, tail=0)
