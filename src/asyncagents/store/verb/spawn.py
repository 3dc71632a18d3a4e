"""Launches a task: inserts the child session, its first input and the task row."""

from msgspec.structs import replace

from asyncagents.domain.body import check_names
from asyncagents.domain.event import SessionCreated
from asyncagents.domain.fact import Spawn
from asyncagents.domain.session_state import Control
from asyncagents.errors import NotFound
from asyncagents.store.row import BUSY, insert_message, publish_status, put_part
from asyncagents.store.tx import Tx
from asyncagents.store.verb.inbox import insert_input, with_agent_and_model
from asyncagents.store.verb.session import insert_session
from asyncagents.store.verb.task import put_task
from asyncagents.store.verb.trace import set_trace


async def spawn(tx: Tx, fact: Spawn) -> None:
    """Insert a child session that is ready; the limits were checked before. Raises `NotFound`."""
    check_names(fact.info.id, fact.first.message.id, fact.first.key, *(part.id for part in fact.first.parts))
    above = await tx.one("lineage", fact.task.parent_id)
    if above is None:
        raise NotFound("parent session", fact.task.parent_id)
    root_id, depth, pool = above
    child = Control(fact.info.id, fact.task.parent_id, root_id, depth + 1, pool).after_wake()
    info = with_agent_and_model(fact.info, fact.first.message)
    await insert_session(tx, replace(child, positions=len(fact.history)), info, status=BUSY)
    if fact.trace is not None:
        await set_trace(tx, child.id, fact.trace)
    tx.emit(SessionCreated(session_id=child.id, info=info))
    await _copy_history(tx, fact)
    await put_task(tx, fact.task, new=True)
    await insert_input(tx, fact.first)
    publish_status(tx, child.id, BUSY)
    tx.wake(child.id)


async def _copy_history(tx: Tx, fact: Spawn) -> None:
    """Insert the copy of the parent's history with which a fork begins."""
    for position, entry in enumerate(fact.history, 1):
        await insert_message(tx, entry.info, position=position, turn=0)
        for part in entry.parts:
            await put_part(tx, part)
