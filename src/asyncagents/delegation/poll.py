"""Turn repeated polls of an unchanged task into a wait, which costs no steps."""

from asyncagents.delegation.launch import TaskLauncher
from asyncagents.domain.agent.permission import POLLING
from asyncagents.domain.call.call import Call, Completed, Settled, WaitFor
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.task import Task
from asyncagents.engine.tool import Outcome, Pending, ToolContext

STILL_RUNNING = "stillRunning"
MOST_EMPTY_ANSWERS = 2
"""Answers in a row without a change; the next poll waits for one."""
LOOK_BACK = 100


async def answer_or_wait(
    launcher: TaskLauncher, task: Task, context: ToolContext, *, tool: str, text: str
) -> Outcome:
    """Answer a poll of a live task or, after too many empty answers, wait for a change."""
    calls = await launcher.store.last_calls(context.session_id, LOOK_BACK)
    if _count_empty_answers(calls, context, task.id) < MOST_EMPTY_ANSWERS:
        return Completed(text, task.description, {"sessionId": task.id, STILL_RUNNING: True})
    return wait_for(task, WaitFor(task.id, tool, any=True), note=text)


def wait_for(task: Task, wait: WaitFor, *, note: str, seconds: float | None = None) -> Pending:
    """Build the wait for a task; the part names the task during and after the wait."""
    metadata = {"sessionId": task.id}
    return Pending(
        kind="wait", seconds=seconds, watch=wait, note=note, title=task.description, metadata=metadata
    )


def _count_empty_answers(calls: tuple[Call, ...], context: ToolContext, task_id: SessionId) -> int:
    """Count the empty answers for this task since the last other call of this turn."""
    count = 0
    own = next((call for call in calls if call.id == context.call_id), None)
    for call in calls:
        if own is None or call.id >= own.id:
            continue
        if call.tool not in POLLING or call.turn != own.turn or not isinstance(call.state, Settled):
            break
        result = call.state.result
        if not isinstance(result, Completed) or not result.metadata.get(STILL_RUNNING):
            break
        count += result.metadata.get("sessionId") == task_id
    return count
