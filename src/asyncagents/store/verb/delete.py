"""Sessions go, with all below them, and with what they launched."""

from asyncagents.domain.event import SessionDeleted
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task import Outcome
from asyncagents.store.row import the_session
from asyncagents.store.tx import Tx
from asyncagents.store.verb.cancel import delete_tasks
from asyncagents.store.verb.delivery import owe_the_end
from asyncagents.store.verb.queue import fill_places
from asyncagents.store.verb.task import readable_task
from asyncagents.store.verb.task_end import GONE, end

_TABLES = (
    "parts", "messages", "inputs", "calls", "answers", "requests", "cancels", "todos", "call_secrets",
    "session",
)  # fmt: skip


async def delete(tx: Tx, session_id: SessionId) -> tuple[SessionId, ...]:
    """Delete a session and all below it; a run that still works on one of them loses its lease.

    Who launched it is told, and may still read what it came to.
    """
    target = (await the_session(tx, session_id)).control
    task = await readable_task(tx, session_id)
    if task is not None and task.live:
        await end(tx, task, Outcome(status="cancelled", error=GONE, ended_by="user"))
    doomed = tuple(SessionId(row[0]) for row in await tx.all("subtree", session_id))
    rev = await tx.rev()
    for each in reversed(doomed):
        row = await the_session(tx, each)
        await delete_tasks(tx, each)
        await owe_the_end(tx, each)
        for table in _TABLES:
            await tx.one(f"delete_{table}", each)
        await tx.one("insert_tombstone", rev, "session", each, encode(row.info))
        tx.emit(SessionDeleted(session_id=each, info=row.info))
        tx.interrupt(each)
    await fill_places(tx, target)
    return doomed
