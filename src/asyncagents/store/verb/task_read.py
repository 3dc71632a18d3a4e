"""Reads tasks for tools, people and clients."""

from contextlib import suppress

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.task import Launcher, Task, TaskWithProgress
from asyncagents.errors import NotFound
from asyncagents.store.row import decode_call, require_session
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.task import decode_task, find_task, progress, without_read_follow_up


async def read_task(tx: Tx, task_id: SessionId) -> TaskWithProgress:
    task = await find_task(tx, task_id)
    if task is None:
        raise NotFound("task", task_id)
    return await _with_progress(tx, task)


async def _with_progress(tx: Tx, task: Task) -> TaskWithProgress:
    return TaskWithProgress(
        await without_read_follow_up(tx, task), await progress(tx, task) if task.live else None
    )


async def tasks_of_parent(tx: Tx, parent_id: SessionId) -> tuple[TaskWithProgress, ...]:
    """List the tasks that a session launched, oldest first."""
    return await _read_tasks(tx, await tx.all("tasks_of", parent_id))


async def tasks_of_tree(tx: Tx, session_id: SessionId) -> tuple[TaskWithProgress, ...]:
    """List the tasks in the tree of a session, oldest first."""
    root_id = (await require_session(tx, session_id)).control.root_id
    return await _read_tasks(tx, await tx.all("tasks_of_tree", root_id))


async def tasks_of_batch(tx: Tx, batch: str) -> tuple[TaskWithProgress, ...]:
    return await _read_tasks(tx, await tx.all("tasks_of_batch", batch))


async def live_tasks(tx: Tx) -> tuple[TaskWithProgress, ...]:
    return await _read_tasks(tx, await tx.all("live_tasks"))


async def newest_tasks(tx: Tx, *, after: str = "", limit: int = 100) -> tuple[TaskWithProgress, ...]:
    """Read a page of tasks, newest first."""
    return await _read_tasks(tx, await tx.all("tasks_page", after, limit))


async def _read_tasks(tx: Tx, rows: list[Row]) -> tuple[TaskWithProgress, ...]:
    """Decode tasks and read their progress; unreadable ones are left out."""
    found = []
    for row in rows:
        with suppress(Unreadable):
            found.append(await _with_progress(tx, decode_task(row)))
    return tuple(found)


async def task_ids_with_prefix(
    tx: Tx, parent_id: SessionId, start: str, *, limit: int = 10
) -> tuple[SessionId, ...]:
    """List ids of a session's tasks with a prefix."""
    rows = await tx.all("task_ids", parent_id, start, start + "~", limit)
    return tuple(SessionId(row[0]) for row in rows)


async def count_live(tx: Tx, session_id: SessionId) -> int:
    """Count the live tasks that a session launched."""
    row = await tx.one("count_live", session_id)
    assert row is not None
    return int(row[0])


async def last_calls(tx: Tx, session_id: SessionId, limit: int) -> tuple[Call, ...]:
    """Read the last calls of a session, newest first."""
    return tuple(decode_call(row) for row in await tx.all("last_calls", session_id, limit))


async def unconcluded_tasks(tx: Tx, limit: int = 500) -> tuple[SessionId, ...]:
    """List live tasks whose end was missed: their child sessions have nothing left to do."""
    return tuple(SessionId(row[0]) for row in await tx.all("unconcluded", limit))


async def launcher(tx: Tx, session_id: SessionId) -> Launcher:
    """Read all that a launch must know of the parent session."""
    row = await require_session(tx, session_id)
    counted = await tx.one("queue", row.control.root_id, "")
    assert counted is not None
    _, working, waiting = counted
    return Launcher(row.info, row.control.turn, working + waiting)
