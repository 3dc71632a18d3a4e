"""Polling: who asks again and again for what has not changed waits instead, at no cost."""

from asyncagents.delegation.desk import Desk
from asyncagents.domain.call import Call, Completed, Settled, Watch
from asyncagents.domain.id import SessionId
from asyncagents.domain.permission import POLLING
from asyncagents.domain.task import Task
from asyncagents.engine.tool import Outcome, Pending, ToolContext

EMPTY = "stillRunning"
PATIENCE = 2
"""So many empty answers in a row; the next one comes when something has changed."""
LOOK_BACK = 100


async def polled(desk: Desk, task: Task, context: ToolContext, *, tool: str, text: str) -> Outcome:
    """The answer, or the wait for it."""
    calls = await desk.store.last_calls(context.session_id, LOOK_BACK)
    if _in_a_row(calls, context, task.id) < PATIENCE:
        return Completed(text, task.description, {"sessionId": task.id, EMPTY: True})
    return wait_for(task, Watch(task.id, tool, any=True), note=text)


def wait_for(task: Task, watch: Watch, *, note: str, seconds: float | None = None) -> Pending:
    """Wait for a task; the part names the task meanwhile, and when the wait is over."""
    metadata = {"sessionId": task.id}
    return Pending(
        kind="wait", seconds=seconds, watch=watch, note=note, title=task.description, metadata=metadata
    )


def _in_a_row(calls: tuple[Call, ...], context: ToolContext, task_id: SessionId) -> int:
    """How often this task was asked for with nothing else done in between, in this turn."""
    count = 0
    own = next((call for call in calls if call.id == context.call_id), None)
    for call in calls:
        if own is None or call.id >= own.id:
            continue
        if call.tool not in POLLING or call.turn != own.turn or not isinstance(call.state, Settled):
            break
        result = call.state.result
        if not isinstance(result, Completed) or not result.metadata.get(EMPTY):
            break
        count += result.metadata.get("sessionId") == task_id
    return count
