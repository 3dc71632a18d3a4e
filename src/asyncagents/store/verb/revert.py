"""Undo: marks messages from a point on, ends their calls and tasks, and lists the file patches to revert."""

from msgspec.structs import replace

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.file_changes import UndoDiffs, UndoMark, UndoPlan, UndoPoint
from asyncagents.domain.conversation.part import PatchPart, TextPart, ToolPart
from asyncagents.domain.conversation.session import FileDiff, Revert, Session
from asyncagents.domain.event import SessionDiff
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.domain.session_state import Claim, Control
from asyncagents.domain.task.task import Task
from asyncagents.errors import NotFound, SessionBusy
from asyncagents.store.row import (
    SessionRow,
    claimed_session,
    inbox,
    read_part,
    require_message,
    require_session,
    save_session,
    sort_id_of,
    unsettled_calls,
    with_updated_time,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.cancel import cancel
from asyncagents.store.verb.drop_undone import drop_undone
from asyncagents.store.verb.file_changes import sum_diffs
from asyncagents.store.verb.queue import make_room
from asyncagents.store.verb.settle import dismiss
from asyncagents.store.verb.task import tasks_of
from asyncagents.store.verb.task_end import CONSUMED, conclude_task

UNDONE = "This call was undone."


async def plan_undo(
    tx: Tx, session_id: SessionId, message_id: MessageId, part_id: PartId | None = None
) -> UndoPlan:
    """Read what an undo would cover: whole prompts with their answers, unless a part of a message is named.

    Raises `SessionBusy` if there can be no undo now.
    """
    row = await require_session(tx, session_id)
    check_at_rest(row, await unsettled_calls(tx, session_id))
    point = await _point(tx, session_id, message_id, part_id)
    return UndoPlan(row.info, point, await _patches(tx, session_id, point), row.control.wake_seq)


async def current_undo(tx: Tx, session_id: SessionId) -> UndoPlan | None:
    """Read the undo that is marked now, if any."""
    row = await require_session(tx, session_id)
    revert = row.info.revert
    if revert is None:
        return None
    point = await _marked_point(tx, revert)
    return UndoPlan(row.info, point, await _patches(tx, session_id, point), row.control.wake_seq)


def check_at_rest(row: SessionRow, calls: tuple[Call, ...]) -> None:
    """Raise `SessionBusy` unless the session rests or waits only for results from outside."""
    control = row.control
    if control.state != "idle" or control.backoff is not None or any(call.blocks_session for call in calls):
        raise SessionBusy(control.id)


async def _point(tx: Tx, session_id: SessionId, message_id: MessageId, part_id: PartId | None) -> UndoPoint:
    row = await tx.one("message", message_id)
    if row is None or row[1] != session_id:
        raise NotFound("message", message_id)
    if part_id is not None:
        parts = (await require_message(tx, message_id)).parts
        if part_id not in [part.id for part in parts]:
            raise NotFound("part", part_id)
        before = [part for part in parts if part.id is not None and part.id < part_id]
        if any(isinstance(part, TextPart | ToolPart) for part in before):
            return UndoPoint(message_id, await sort_id_of(tx, message_id), part_id)
    asked = await tx.one("last_user_id", session_id, await sort_id_of(tx, message_id))
    begin = MessageId(asked[0]) if asked else message_id
    return UndoPoint(begin, await sort_id_of(tx, begin))


async def _marked_point(tx: Tx, revert: Revert) -> UndoPoint:
    return UndoPoint(revert.message_id, await sort_id_of(tx, revert.message_id), revert.part_id)


async def _patches(tx: Tx, session_id: SessionId, point: UndoPoint) -> tuple[PatchPart, ...]:
    found = [read_part(row) for row in await tx.all("patches", session_id, point.sort_id)]
    for task in await _tasks_launched_after(tx, session_id, point):
        for (below,) in await tx.all("subtree", task.id):
            found += [read_part(row) for row in await tx.all("patches", below, "")]
    patches = [
        part
        for part in found
        if isinstance(part, PatchPart)
        and (part.session_id != session_id or point.cuts(part.message_id, part.id))
    ]
    return tuple(sorted(patches, key=lambda part: part.id))


async def _tasks_launched_after(tx: Tx, session_id: SessionId, point: UndoPoint) -> list[Task]:
    """Find the tasks launched from the point on; within a split message, by the part of their call."""
    known = await tasks_of(tx, session_id)
    sorts_by = {each: await sort_id_of(tx, each) for each in dict.fromkeys(task.message_id for task in known)}
    tasks = [task for task in known if sorts_by[task.message_id] >= point.sort_id]
    if point.part_id is None:
        return tasks
    return [t for t in tasks if t.message_id != point.message_id or await _is_cut(tx, t, point)]


async def _is_cut(tx: Tx, task: Task, point: UndoPoint) -> bool:
    for part in (await require_message(tx, task.message_id)).parts:
        metadata = getattr(part.state, "metadata", None) if isinstance(part, ToolPart) else None
        if metadata and metadata.get("sessionId") == task.id:
            return point.cuts(task.message_id, part.id)
    return True


async def mark_undone(tx: Tx, session_id: SessionId, revert: Revert, *, wakes: int | None = None) -> UndoMark:
    """Write the mark, and settle the calls and end the tasks that are undone, in one transaction.

    Comes before the files change: if the process dies, the marked undo can be resumed. With `wakes` of an
    earlier read, raises `SessionBusy` if the session was woken since: a turn it did not see is not undone.
    """
    row = await require_session(tx, session_id)
    check_at_rest(row, await unsettled_calls(tx, session_id))
    if wakes is not None and row.control.wake_seq != wakes:
        raise SessionBusy(session_id)
    point = await _marked_point(tx, revert)
    for call in await unsettled_calls(tx, session_id):
        later = await sort_id_of(tx, call.message_id) >= point.sort_id
        if later and point.cuts(call.message_id, call.part_id):
            await dismiss(tx, row.info, call, UNDONE)
    stopping = await _end_tasks(tx, session_id, point)
    newest = await tx.one("last_sort_id", session_id)
    revert = replace(revert, through=newest[0] if newest else point.sort_id)
    row = await require_session(tx, session_id)  # the end of a task may have changed it
    info = replace(with_updated_time(row.info, tx.now), revert=revert)
    await save_session(tx, row, await _end_waiting_turn(tx, row.control), info)
    if row.control.in_turn:
        await conclude_task(tx, row.control, info)
        await make_room(tx, row.control)
    return UndoMark(info, stopping)


async def _end_tasks(tx: Tx, session_id: SessionId, point: UndoPoint) -> tuple[SessionId, ...]:
    stopping: list[SessionId] = []
    for task in await _tasks_launched_after(tx, session_id, point):
        if task.live:
            stopping += await cancel(tx, task.id, notice=CONSUMED)
        await tx.run("hush_task", task.id)
    return tuple(dict.fromkeys(stopping))


async def _end_waiting_turn(tx: Tx, control: Control) -> Control:
    """End a turn that waited only for what is undone; one with open calls goes on."""
    if control.state != "idle" or not control.in_turn or await unsettled_calls(tx, control.id):
        return control
    unread = await inbox(tx, control.id)
    return control.after_rest(unread=unread.queued + unread.notices > 0)


async def record_restored_files(
    tx: Tx, session_id: SessionId, revert: Revert, files: UndoDiffs | None
) -> Session:
    """Record that the files were restored, unless the mark was removed or replaced meanwhile."""
    row = await require_session(tx, session_id)
    now = row.info.revert
    if now is None or (now.message_id, now.part_id) != (revert.message_id, revert.part_id):
        return row.info
    info = replace(row.info, revert=replace(now, diff=revert.diff, note=revert.note))
    if files is not None:
        info = replace(info, summary=sum_diffs(files.undone))
        tx.emit(SessionDiff(session_id=session_id, diff=files.left))
    await save_session(tx, row, row.control, info)
    return info


async def reopen(tx: Tx, session_id: SessionId) -> Session:
    """Mark the undo as unfinished before files change again; input admitted meanwhile waits for them."""
    row = await require_session(tx, session_id)
    check_at_rest(row, await unsettled_calls(tx, session_id))
    if row.info.revert is None or row.info.revert.diff is None:
        return row.info
    info = replace(row.info, revert=replace(row.info.revert, diff=None))
    await save_session(tx, row, row.control, info)
    return info


async def drop_undone_messages(tx: Tx, claim: Claim) -> None:
    """Delete what is undone, before a model is asked."""
    await drop_undone(tx, await claimed_session(tx, claim))


async def unmark(tx: Tx, session_id: SessionId, diffs: tuple[FileDiff, ...] | None = None) -> Session:
    """Remove the mark; calls and tasks stay ended. `diffs`: the session's file changes, if known."""
    row = await require_session(tx, session_id)
    if row.info.revert is None:
        return row.info
    info = replace(with_updated_time(row.info, tx.now), revert=None)
    if diffs is not None:
        tx.emit(SessionDiff(session_id=session_id, diff=diffs))
    await save_session(tx, row, row.control, info)
    return info
