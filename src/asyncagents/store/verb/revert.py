"""Revert: mark what is undone, end what it still does, and say which files go back to what they were."""

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call import Call
from asyncagents.domain.control import Control, Lease
from asyncagents.domain.event import SessionDiff
from asyncagents.domain.id import MessageId, PartId, SessionId
from asyncagents.domain.part import PatchPart, TextPart, ToolPart
from asyncagents.domain.session import FileDiff, Revert, Session
from asyncagents.domain.task import Task
from asyncagents.errors import NotFound, SessionBusy
from asyncagents.store.row import (
    SessionRow,
    entry,
    held,
    inbox,
    read_part,
    save,
    sort_id_of,
    the_session,
    touched,
    unsettled,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.cancel import cancel
from asyncagents.store.verb.queue import make_room
from asyncagents.store.verb.signal import dismiss
from asyncagents.store.verb.task import tasks_of
from asyncagents.store.verb.task_end import CONSUMED, conclude
from asyncagents.store.verb.trail import summed
from asyncagents.store.verb.undone import clear_undone

UNDONE = "This call was undone."


class Point(Struct, frozen=True):
    """From here on. `sort_id`: what the message sorts by."""

    message_id: MessageId
    sort_id: str
    part_id: PartId | None = None

    def cuts(self, message_id: str, part_id: str | None) -> bool:
        """Tell whether a part is undone, of a message that is this one or comes later."""
        if message_id != self.message_id or self.part_id is None:
            return True
        return part_id is not None and part_id >= self.part_id


class Undoing(Struct, frozen=True):
    """What an undo is about."""

    info: Session
    point: Point
    patches: tuple[PatchPart, ...]
    """What was changed from there on, the oldest first; also by those who worked for it."""
    wakes: int
    """How often the session had been woken."""


class Files(Struct, frozen=True, kw_only=True):
    """What an undo made of the changes of a session: those it took back, and those that are left."""

    undone: tuple[FileDiff, ...]
    left: tuple[FileDiff, ...]


async def look(
    tx: Tx, session_id: SessionId, message_id: MessageId, part_id: PartId | None = None
) -> Undoing:
    """Whole prompts are undone with all that answered them, unless a part is named that follows another."""
    row = await the_session(tx, session_id)
    check_at_rest(row, await unsettled(tx, session_id))
    point = await _point(tx, session_id, message_id, part_id)
    return Undoing(row.info, point, await _patches(tx, session_id, point), row.control.wake_seq)


async def marked(tx: Tx, session_id: SessionId) -> Undoing | None:
    """What is undone now."""
    row = await the_session(tx, session_id)
    revert = row.info.revert
    if revert is None:
        return None
    point = await _marked_point(tx, revert)
    return Undoing(row.info, point, await _patches(tx, session_id, point), row.control.wake_seq)


def check_at_rest(row: SessionRow, calls: tuple[Call, ...]) -> None:
    """What only waits for a result from outside may be undone."""
    control = row.control
    if control.state != "idle" or control.backoff is not None or any(call.holding for call in calls):
        raise SessionBusy(control.id)


async def _point(tx: Tx, session_id: SessionId, message_id: MessageId, part_id: PartId | None) -> Point:
    row = await tx.one("message", message_id)
    if row is None or row[1] != session_id:
        raise NotFound("message", message_id)
    if part_id is not None:
        parts = (await entry(tx, message_id)).parts
        if part_id not in [part.id for part in parts]:
            raise NotFound("part", part_id)
        before = [part for part in parts if part.id is not None and part.id < part_id]
        if any(isinstance(part, TextPart | ToolPart) for part in before):
            return Point(message_id, await sort_id_of(tx, message_id), part_id)
    asked = await tx.one("last_user_id", session_id, await sort_id_of(tx, message_id))
    begin = MessageId(asked[0]) if asked else message_id
    return Point(begin, await sort_id_of(tx, begin))


async def _marked_point(tx: Tx, revert: Revert) -> Point:
    return Point(revert.message_id, await sort_id_of(tx, revert.message_id), revert.part_id)


async def _patches(tx: Tx, session_id: SessionId, point: Point) -> tuple[PatchPart, ...]:
    found = [read_part(row) for row in await tx.all("patches", session_id, point.sort_id)]
    for task in await _launched(tx, session_id, point):
        for (below,) in await tx.all("subtree", task.id):
            found += [read_part(row) for row in await tx.all("patches", below, "")]
    patches = [
        part
        for part in found
        if isinstance(part, PatchPart)
        and (part.session_id != session_id or point.cuts(part.message_id, part.id))
    ]
    return tuple(sorted(patches, key=lambda part: part.id))


async def _launched(tx: Tx, session_id: SessionId, point: Point) -> list[Task]:
    """A task says which message launched it; one of a message that is cut in two goes with its call."""
    known = await tasks_of(tx, session_id)
    sorts_by = {each: await sort_id_of(tx, each) for each in dict.fromkeys(task.message_id for task in known)}
    tasks = [task for task in known if sorts_by[task.message_id] >= point.sort_id]
    if point.part_id is None:
        return tasks
    return [t for t in tasks if t.message_id != point.message_id or await _is_cut(tx, t, point)]


async def _is_cut(tx: Tx, task: Task, point: Point) -> bool:
    for part in (await entry(tx, task.message_id)).parts:
        metadata = getattr(part.state, "metadata", None) if isinstance(part, ToolPart) else None
        if metadata and metadata.get("sessionId") == task.id:
            return point.cuts(task.message_id, part.id)
    return True


class Marked(Struct, frozen=True):
    info: Session
    stopping: tuple[SessionId, ...] = ()
    """Sessions that were told to stop."""


async def mark(tx: Tx, session_id: SessionId, revert: Revert, *, wakes: int | None = None) -> Marked:
    """Settle the calls and end the tasks that are undone, in one transaction with the mark.

    Before the files: if the process dies, what is marked can be taken up again. With `wakes` of a look: a
    turn that came and went since was not looked at, and is not undone unseen.
    """
    row = await the_session(tx, session_id)
    check_at_rest(row, await unsettled(tx, session_id))
    if wakes is not None and row.control.wake_seq != wakes:
        raise SessionBusy(session_id)
    point = await _marked_point(tx, revert)
    for call in await unsettled(tx, session_id):
        later = await sort_id_of(tx, call.message_id) >= point.sort_id
        if later and point.cuts(call.message_id, call.part_id):
            await dismiss(tx, row.info, call, UNDONE)
    stopping = await _end_tasks(tx, session_id, point)
    newest = await tx.one("last_sort_id", session_id)
    revert = replace(revert, through=newest[0] if newest else point.sort_id)
    row = await the_session(tx, session_id)  # the end of a task may have changed it
    info = replace(touched(row.info, tx.now), revert=revert)
    await save(tx, row, await _turn_ended(tx, row.control), info)
    if row.control.in_turn:
        await conclude(tx, row.control, info)
        await make_room(tx, row.control)
    return Marked(info, stopping)


async def _end_tasks(tx: Tx, session_id: SessionId, point: Point) -> tuple[SessionId, ...]:
    stopping: list[SessionId] = []
    for task in await _launched(tx, session_id, point):
        if task.live:
            stopping += await cancel(tx, task.id, hush=CONSUMED)
        await tx.run("hush_task", task.id)
    return tuple(dict.fromkeys(stopping))


async def _turn_ended(tx: Tx, control: Control) -> Control:
    """A turn that only waited for what is undone is over; one that waits for more goes on."""
    if control.state != "idle" or not control.in_turn or await unsettled(tx, control.id):
        return control
    unread = await inbox(tx, control.id)
    return control.rested(unread=unread.queued + unread.notices > 0)


async def files_put_back(tx: Tx, session_id: SessionId, revert: Revert, files: Files | None) -> Session:
    """The files are as the mark says; unless somebody spoke meanwhile, or marked something else."""
    row = await the_session(tx, session_id)
    now = row.info.revert
    if now is None or (now.message_id, now.part_id) != (revert.message_id, revert.part_id):
        return row.info
    info = replace(row.info, revert=replace(now, diff=revert.diff, note=revert.note))
    if files is not None:
        info = replace(info, summary=summed(files.undone))
        tx.emit(SessionDiff(session_id=session_id, diff=files.left))
    await save(tx, row, row.control, info)
    return info


async def reopen(tx: Tx, session_id: SessionId) -> Session:
    """Before files change again: whoever speaks meanwhile waits for them."""
    row = await the_session(tx, session_id)
    check_at_rest(row, await unsettled(tx, session_id))
    if row.info.revert is None or row.info.revert.diff is None:
        return row.info
    info = replace(row.info, revert=replace(row.info.revert, diff=None))
    await save(tx, row, row.control, info)
    return info


async def clear(tx: Tx, lease: Lease) -> None:
    """A model is about to be asked."""
    await clear_undone(tx, await held(tx, lease))


async def unmark(tx: Tx, session_id: SessionId, diffs: tuple[FileDiff, ...] | None = None) -> Session:
    """All is as it was; what was ended stays so. `diffs`: what the session has changed, if that is known."""
    row = await the_session(tx, session_id)
    if row.info.revert is None:
        return row.info
    info = replace(touched(row.info, tx.now), revert=None)
    if diffs is not None:
        tx.emit(SessionDiff(session_id=session_id, diff=diffs))
    await save(tx, row, row.control, info)
    return info
