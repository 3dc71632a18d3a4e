"""Reads what changed on a status board after a cursor: the current state of tasks, not each change."""

from msgspec.structs import replace

from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.board_feed import (
    BoardChanges,
    BoardCursor,
    BoardEventType,
    TaskChange,
    TaskProgressed,
    removed_task,
)
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.board import QueuePlaces, show_task
from asyncagents.store.verb.task import decode_task

WINDOW = 500
FAR = 2_000
"""Revisions. For a larger range it is cheaper to read every live task than all changed rows."""


async def changes_since(tx: Tx, after: BoardCursor, *, progress: bool, window: int = WINDOW) -> BoardChanges:
    """Read a bounded piece of what changed after a cursor; with `progress` the last has live tasks, too."""
    row = await tx.one("revision")
    assert row is not None
    now, epoch, oldest = row
    if after.epoch != epoch or 0 < after.rev < oldest or after.rev > now:
        return BoardChanges(point=BoardCursor(epoch=epoch, rev=now, level=now, base=now), reset=True)
    upto = await _window_end(tx, after.rev, now, window)
    places = QueuePlaces()
    changes = [await _change(tx, row, places) for row in await tx.all("board_changed", after.rev, upto)]
    changes += [removed_task(*row) for row in await tx.all("board_removed", after.rev, upto)]
    changes.sort(key=lambda each: (each.rev, each.became != "task.removed", each.task_id))
    more = upto < now
    at = BoardCursor(epoch=epoch, rev=upto, level=after.level, base=after.base if more else now)
    if more or not progress:
        return BoardChanges(point=at, changes=tuple(changes), more=more)
    changed_ids = {each.task_id for each in changes}
    moved = await _progressed_tasks(tx, (after.level, now), changed_ids, places)
    return BoardChanges(point=replace(at, level=now), changes=tuple(changes), moved=moved)


async def _window_end(tx: Tx, after: int, now: int, window: int) -> int:
    """The revision at which a piece has `window` changes."""
    full = [await tx.one(each, after, now, window - 1) for each in ("board_reach", "board_reach_removed")]
    return min((row[0] for row in full if row is not None), default=now)


async def _change(tx: Tx, row: Row, places: QueuePlaces) -> TaskChange:
    rev, born, done, turned, task_id, *raw = row
    try:
        task = decode_task(tuple(raw))
    except Unreadable:  # it cannot be shown any more
        return removed_task(rev, task_id)
    return TaskChange(
        task_id=task.id,
        rev=rev,
        born=born,
        done=done,
        became=_event_type(task.status),
        body=encode(await show_task(tx, task, places)),
        kind=task.kind,
        turned=turned,
    )


def _event_type(status: str) -> BoardEventType:
    match status:
        case "completed":
            return "task.completed"
        case "error":
            return "task.error"
        case "cancelled":
            return "task.cancelled"
        case _:
            return "task.updated"


async def _progressed_tasks(
    tx: Tx, since: tuple[int, int], changed_ids: set[SessionId], places: QueuePlaces
) -> tuple[TaskProgressed, ...]:
    """Read live tasks whose rows did not change but whose progress or place in a queue may have."""
    after, now = since
    if after == now:
        return ()
    if now - after > FAR:
        rows = await tx.all("board_moved_since", after)
    else:
        rows = await tx.all("board_moved", after, now)
    found = []
    for row in rows:
        try:
            task = decode_task(row)
        except Unreadable:
            continue
        if task.id not in changed_ids:
            found.append(TaskProgressed(task.id, encode(await show_task(tx, task, places)), task.kind))
    return tuple(found)
