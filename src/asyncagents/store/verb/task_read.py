"""Reads tasks for tools, people and clients."""

from contextlib import suppress

from msgspec import Struct

from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.task import Progress, Task
from asyncagents.errors import NotFound
from asyncagents.store.row import decode_call, the_session
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.task import decode_task, find_task, progress, shown


class Seen(Struct, frozen=True):
    """A task and its progress; None: it has ended, and its account holds the numbers."""

    task: Task
    progress: Progress | None


async def seen(tx: Tx, task_id: SessionId) -> Seen:
    task = await find_task(tx, task_id)
    if task is None:
        raise NotFound("task", task_id)
    return await _seen(tx, task)


async def _seen(tx: Tx, task: Task) -> Seen:
    return Seen(await shown(tx, task), await progress(tx, task) if task.live else None)


async def of_parent(tx: Tx, parent_id: SessionId) -> tuple[Seen, ...]:
    """Read the tasks of a parent, oldest first."""
    return await _all(tx, await tx.all("tasks_of", parent_id))


async def of_tree(tx: Tx, session_id: SessionId) -> tuple[Seen, ...]:
    root_id = (await the_session(tx, session_id)).control.root_id
    return await _all(tx, await tx.all("tasks_of_tree", root_id))


async def of_batch(tx: Tx, batch: str) -> tuple[Seen, ...]:
    return await _all(tx, await tx.all("tasks_of_batch", batch))


async def live(tx: Tx) -> tuple[Seen, ...]:
    return await _all(tx, await tx.all("live_tasks"))


async def newest(tx: Tx, *, after: str, limit: int) -> tuple[Seen, ...]:
    """Read a page of tasks, newest first."""
    return await _all(tx, await tx.all("tasks_page", after, limit))


async def _all(tx: Tx, rows: list[Row]) -> tuple[Seen, ...]:
    """Decode tasks and read their progress; unreadable ones are left out."""
    found = []
    for row in rows:
        with suppress(Unreadable):
            found.append(await _seen(tx, decode_task(row)))
    return tuple(found)


async def beginning(tx: Tx, parent_id: SessionId, start: str, *, limit: int) -> tuple[SessionId, ...]:
    """List ids of a session's tasks with a prefix."""
    rows = await tx.all("task_ids", parent_id, start, start + "~", limit)
    return tuple(SessionId(row[0]) for row in rows)


async def count_live(tx: Tx, session_id: SessionId) -> int:
    row = await tx.one("count_live", session_id)
    assert row is not None
    return int(row[0])


async def last_calls(tx: Tx, session_id: SessionId, limit: int) -> tuple[Call, ...]:
    """Read the last calls of a session, newest first."""
    return tuple(decode_call(row) for row in await tx.all("last_calls", session_id, limit))


async def unconcluded(tx: Tx, limit: int) -> tuple[SessionId, ...]:
    """List live tasks whose end was missed."""
    return tuple(SessionId(row[0]) for row in await tx.all("unconcluded", limit))


class Launcher(Struct, frozen=True):
    """The launching session, and how many sessions of its tree work or wait for a place."""

    info: Session
    turn: int
    crowd: int


async def launcher(tx: Tx, session_id: SessionId) -> Launcher:
    row = await the_session(tx, session_id)
    counted = await tx.one("queue", row.control.root_id, "")
    assert counted is not None
    _, working, waiting = counted
    return Launcher(row.info, row.control.turn, working + waiting)
