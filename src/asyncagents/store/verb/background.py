"""Moves a task to the background: the call that waits for it is settled early, the task goes on."""

from msgspec.structs import replace

from asyncagents.domain.call.call import Completed
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.task import Task
from asyncagents.domain.task.texts import moved_text
from asyncagents.errors import Conflict
from asyncagents.store.row import require_call, require_session
from asyncagents.store.tx import Tx
from asyncagents.store.verb.settle import settle_open
from asyncagents.store.verb.task import deny_questions, live_tasks_of, put_task, require_task, waits_for


async def move_to_background(tx: Tx, task_id: SessionId) -> Task:
    """Move a task to the background; its parent goes on now and gets a notice later. Idempotent."""
    task = await require_task(tx, task_id)
    if not task.live:
        raise Conflict(f"task {task_id} has ended: there is nothing to move to the background")
    after = replace(task, background=True, calls=())
    if after == task:
        return task
    await put_task(tx, after)
    await deny_questions(tx, task.id)
    await _settle_waiting_calls(tx, task)
    return after


async def move_all_to_background(tx: Tx, session_id: SessionId) -> tuple[SessionId, ...]:
    """Move all tasks that a session itself waits for to the background; returns their ids."""
    await require_session(tx, session_id)
    waited_for = [task for task in await live_tasks_of(tx, session_id) if task.calls]
    for task in waited_for:
        await move_to_background(tx, task.id)
    return tuple(task.id for task in waited_for)


async def _settle_waiting_calls(tx: Tx, task: Task) -> None:
    """Settle the calls that wait for a task."""
    for call_id in task.calls:
        call = await require_call(tx, call_id)
        waiting = waits_for(call)
        if waiting is not None:
            metadata = {**waiting.metadata, "background": True}
            row = await require_session(tx, call.session_id)
            await settle_open(tx, row, call, Completed(moved_text(task), waiting.title, metadata))
