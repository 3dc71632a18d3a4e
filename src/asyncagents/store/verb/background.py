"""From the foreground to the background: the call that waits is settled early, the task goes on."""

from msgspec.structs import replace

from asyncagents.domain.call import Completed
from asyncagents.domain.id import SessionId
from asyncagents.domain.task import Task
from asyncagents.domain.task_text import moved
from asyncagents.errors import Conflict
from asyncagents.store.row import the_call, the_session
from asyncagents.store.tx import Tx
from asyncagents.store.verb.signal import settle_open
from asyncagents.store.verb.task import ask_nobody, put_task, the_task, waits_for


async def background(tx: Tx, task_id: SessionId) -> Task:
    """Its parent goes on at once, and is told of the end by a notice. Once more changes nothing."""
    task = await the_task(tx, task_id)
    if not task.live:
        raise Conflict(f"task {task_id} has ended: there is nothing to move to the background")
    after = replace(task, background=True, calls=())
    if after == task:
        return task
    await put_task(tx, after)
    await ask_nobody(tx, task.id)
    for call_id in task.calls:
        call = await the_call(tx, call_id)
        waiting = waits_for(call)
        if waiting is not None:
            metadata = {**waiting.metadata, "background": True}
            row = await the_session(tx, call.session_id)
            await settle_open(tx, row, call, Completed(moved(task), task.description, metadata))
    return after
