"""Deletes a session with its descendants and the tasks they launched."""

from msgspec.structs import replace

from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.conversation.session import Session, SessionTime
from asyncagents.domain.event import SessionDeleted
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.task import TaskOutcome
from asyncagents.errors import NotFound
from asyncagents.store.row import require_session
from asyncagents.store.tx import Tx
from asyncagents.store.verb.cancel import delete_tasks
from asyncagents.store.verb.delivery import enqueue_deleted_webhooks
from asyncagents.store.verb.queue import fill_places
from asyncagents.store.verb.task import put_task, readable_task
from asyncagents.store.verb.task_end import GONE, end_task

_TABLES = (
    "parts", "messages", "inputs", "calls", "answers", "requests", "cancels", "todos", "call_secrets",
    "idempotency", "external_sessions", "session",
)  # fmt: skip


async def delete_session(tx: Tx, session_id: SessionId) -> tuple[SessionId, ...]:
    """Delete a session and its descendants; a run that still works on one of them loses its claim.

    The parent that launched it gets a notice and can still read its result.
    """
    lineage = await tx.one("lineage", session_id)
    if lineage is None:
        raise NotFound("session", session_id)
    root_id, depth, _ = lineage
    task = await readable_task(tx, session_id)
    if task is not None and task.live:
        await end_task(tx, task, TaskOutcome(status="cancelled", error=GONE, ended_by="user"))
        task = await readable_task(tx, session_id)
    if task is not None:
        await put_task(tx, replace(task, gone=True))
    doomed = tuple(SessionId(row[0]) for row in await tx.all("subtree", session_id))
    rev = await tx.rev()
    for each in reversed(doomed):
        info = await _last_known_info(tx, each)
        await delete_tasks(tx, each)
        await enqueue_deleted_webhooks(tx, each)
        for table in _TABLES:
            await tx.one(f"delete_{table}", each)
        await tx.one("insert_tombstone", rev, "session", each, encode(info))
        tx.emit(SessionDeleted(session_id=each, info=info))
        tx.interrupt(each)
    if depth:
        await fill_places(tx, root_id)
    return doomed


async def _last_known_info(tx: Tx, session_id: SessionId) -> Session:
    """Read a session for the event of its deletion; of an unreadable one, what its columns hold."""
    try:
        return (await require_session(tx, session_id)).info
    except Unreadable:
        row = await tx.one("outline", session_id)
        assert row is not None, "the session exists"
        parent_id, project_id, directory, updated = row
        return Session(
            id=session_id,
            slug="",
            project_id=project_id,
            directory=directory,
            title="",
            version="",
            time=SessionTime(created=updated, updated=updated),
            parent_id=parent_id,
        )
