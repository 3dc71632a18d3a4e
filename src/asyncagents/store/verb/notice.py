"""Promotes notices: one message reports the ends of tasks, built from the rows at that moment."""

import logging

import msgspec
from msgspec.structs import replace

from asyncagents.domain.conversation.codec import DECODE_ERRORS, unreadable_error
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.system_message import MessageTarget, build_user_message
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.session_state import Control
from asyncagents.domain.task.notice import BatchCount, Notice, NoticeFormat, build_notice
from asyncagents.domain.task.task import TaskEnd, TaskError
from asyncagents.store.row import insert_message, model_ref, put_part
from asyncagents.store.tx import Row, Tx

_log = logging.getLogger(__name__)
_ends = msgspec.json.Decoder(TaskEnd)


async def open_notices(tx: Tx, session_id: SessionId) -> list[Row]:
    """Read the notices that were not promoted yet, also quiet ones."""
    return await tx.all("open_notices", session_id)


def is_due(row: Row) -> bool:
    return bool(row[2] == "due")


async def promote_notices(
    tx: Tx,
    control: Control,
    info: Session,
    rows: list[Row],
    *,
    message_id: MessageId,
    notice_format: NoticeFormat,
) -> tuple[Control, UserMessage]:
    """Insert one message for all notices as promoted input; the session keeps its agent and model."""
    ends = [_decode_end(row) for row in rows]
    notice = build_notice(
        ends, await _count_batches(tx, ends), await _count_running(tx, control), notice_format
    )
    assert info.agent is not None and info.model is not None, "a session that launched a task has both"
    target = MessageTarget(control.id, info.agent, model_ref(info.model))
    message = build_user_message(target, message_id, tx.now)
    control = replace(control, positions=control.positions + 1)
    await insert_message(tx, message, position=control.positions, turn=control.turn)
    await _put_parts(tx, message, notice)
    rev = await tx.rev()
    key = f"notice:{message_id}"
    await tx.one("insert_input", message_id, control.id, key, rev, "queued", "notice", rev)
    await tx.one("promote_input", control.turn, rev, message_id)
    await tx.run("tell_notices", message_id, control.id)
    return control, message


async def _put_parts(tx: Tx, message: UserMessage, notice: Notice) -> None:
    for text, hidden in (*((text, None) for text in notice.visible), (notice.hidden, True)):
        part = TextPart(
            id=tx.ids.part(),
            session_id=message.session_id,
            message_id=message.id,
            text=text,
            synthetic=hidden,
        )
        await put_part(tx, part)


async def _count_batches(tx: Tx, ends: list[TaskEnd]) -> dict[str, BatchCount]:
    counted = {}
    for batch in dict.fromkeys(end.batch for end in ends):
        row = await tx.one("count_batch", batch)
        assert row is not None
        counted[batch] = BatchCount(*row)
    return counted


async def _count_running(tx: Tx, control: Control) -> int:
    row = await tx.one("count_live_background", control.id)
    assert row is not None
    return int(row[0])


def _decode_end(row: Row) -> TaskEnd:
    """Decode a notice; an unreadable one is reported as an error, because the parent waits for it."""
    task_id, run, _, raw = row
    try:
        return _ends.decode(raw)
    except DECODE_ERRORS as error:
        _log.warning("task=%s action=promote_notice: %s", task_id, unreadable_error("notice", raw, error))
        return TaskEnd(
            id=SessionId(task_id),
            run=run,
            description="a task",
            agent="unknown",
            batch="",
            status="error",
            ms=0,
            error=TaskError("UnreadableError", "How this task ended cannot be read; read the task itself."),
        )
