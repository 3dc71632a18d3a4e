"""Ends a task's run: writes its last state, settles the calls that wait for it and inserts the notice."""

import logging
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.call.call import Call, Completed, Failed, Result, Settled, WaitFor
from asyncagents.domain.conversation.codec import Unreadable, decode_message, upcast
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.failure import MessageAbortedError, TaskInDoubt, describe_failure
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Control
from asyncagents.domain.shape import encode
from asyncagents.domain.task import texts
from asyncagents.domain.task.account import earlier_runs, run_account
from asyncagents.domain.task.task import Account, Task, TaskError, TaskOutcome, end_run, task_end
from asyncagents.store.row import decode_call, find_session, read_part, require_session, save_session
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.child_wait import mark_rested_session
from asyncagents.store.verb.read import AFTER_ALL_POSITIONS
from asyncagents.store.verb.settle import settle_open
from asyncagents.store.verb.task import (
    account_so_far,
    find_task,
    progress,
    put_task,
    readable_session,
    readable_task,
    waits_for,
)

LOOK_BACK = 8
SHOWN_CALLS = 20
REJECTED = TaskError("PermissionRejectedError", "The user rejected a tool call, so the task stopped.")
GONE = TaskError("NotFoundError", "The session of this task was deleted.")
NOTHING = TaskError("UnknownError", "The task ended before any model had answered.")

_log = logging.getLogger(__name__)


class NoticeState(Struct, frozen=True):
    """Notice state: `due` wakes the parent, `quiet` waits for its next turn, `consumed` is never sent."""

    state: str


DUE, QUIET, CONSUMED = NoticeState("due"), NoticeState("quiet"), NoticeState("consumed")


async def conclude_task(
    tx: Tx, control: Control, info: Session, *, crashed: bool = False, blocked: bool = False
) -> None:
    """End the run of a session that rests, if it is a live task with nothing left to do."""
    if control.parent_id is None:
        return
    task = await readable_task(tx, control.id)
    if task is None or not task.live:
        return
    if await _has_unfinished_work(tx, control.id):
        await mark_rested_session(tx, control)  # a rejection or an error ends the turn, not its pending calls
        return
    step = await _last_step(tx, control.id)
    how = run_outcome(step, crashed=crashed, blocked=blocked)
    account = run_account(task, await account_so_far(tx, info))
    account = replace(account, finish=_finish_reason(step))
    await _end_run(tx, task, how, notice=DUE, account=account)


async def _has_unfinished_work(tx: Tx, session_id: SessionId) -> bool:
    row = await tx.one("unfinished", session_id)
    assert row is not None
    return bool(row[0])


async def conclude_missed(tx: Tx, task_id: SessionId) -> None:
    """Conclude a task whose end was missed; one that cannot be read is given up."""
    row = await find_session(tx, task_id)
    try:
        task = await find_task(tx, task_id)
    except Unreadable as error:  # it would keep its parent from ending for ever
        _log.warning("task=%s action=give_up: the task cannot be read: %s", task_id, error)
        await tx.run("give_up_task", await tx.rev(), task_id)
        await _fail_waiting_calls(tx, task_id)
        return
    if task is None or not task.live:
        return
    if row is None:
        await end_task(tx, task, TaskOutcome(status="error", error=GONE, ended_by="user"))
    elif row.control.state == "idle" and not row.control.in_turn and row.control.backoff is None:
        await conclude_task(tx, row.control, row.info)


async def _fail_waiting_calls(tx: Tx, task_id: SessionId) -> None:
    """Fail the calls of the parent that wait for a task which cannot be read."""
    found = await tx.one("parent_of_task", task_id)
    assert found is not None, "the task has a row"
    parent_id = SessionId(found[0])
    for call in await _open_calls(tx, parent_id):
        assert call.open is not None, "only open calls were read"
        watched = call.open.watch.task_id if call.open.watch else None
        if task_id in (watched, waits_for(call) and call.open.metadata.get("sessionId")):
            row = await require_session(tx, parent_id)
            await settle_open(tx, row, call, Failed(texts.unreadable_task_text(task_id)))


def run_outcome(
    step: MessageWithParts | None, *, crashed: bool = False, blocked: bool = False
) -> TaskOutcome:
    """Derive the outcome of a run from the child's last step."""
    if step is None:
        return TaskOutcome(status="error", error=NOTHING, ended_by="crash" if crashed else None)
    assert isinstance(step.info, AssistantMessage)
    if blocked:
        return TaskOutcome(status="error", result=step.text, error=REJECTED, ended_by="user")
    if isinstance(step.info.error, MessageAbortedError):  # a turn was aborted, and nothing runs below
        error = TaskError(*describe_failure(step.info.error))
        return TaskOutcome(status="cancelled", result=step.text, error=error, ended_by="user")
    if step.info.error is not None:
        error = TaskError(*describe_failure(step.info.error))
        crashed = crashed or isinstance(step.info.error, TaskInDoubt)
        return TaskOutcome(
            status="error", result=step.text, error=error, ended_by="crash" if crashed else None
        )
    return TaskOutcome(status="completed", result=step.text)


async def end_task(tx: Tx, task: Task, how: TaskOutcome, *, notice: NoticeState = DUE) -> None:
    """End a task from outside (cancel, deadline, deletion)."""
    row = await readable_session(tx, task.id)
    account = run_account(task, await account_so_far(tx, row.info)) if row else Account()
    await _end_run(tx, task, how, notice=notice, account=account)


async def _end_run(tx: Tx, task: Task, how: TaskOutcome, *, notice: NoticeState, account: Account) -> None:
    """End a run, once; wakes the parent unless the notice is `quiet` or `consumed`."""
    done = end_run(replace(task, earlier=earlier_runs(task)), how, account, tx.now)
    await put_task(tx, done)
    try:
        parent = await find_session(tx, task.parent_id)
    except Unreadable as error:  # the parent is broken; its task ends all the same
        _log.warning("task=%s action=wake_parent: the parent cannot be read: %s", task.id, error)
        await _insert_notice(tx, done, notice.state)
        return
    if parent is None:
        return
    if notice is QUIET:  # the calls that wait for it are cancelled as well
        known = bool(await _waiting_calls(tx, task))
    else:
        known = await _settle_waiting_calls(tx, task, done)
        waits = await _watching_calls(tx, done)
        known = await _settle_watching_calls(tx, done, waits) or known
        parent = await require_session(tx, task.parent_id) if waits or task.calls else parent
    state = CONSUMED.state if known else notice.state
    await _insert_notice(tx, done, state)
    if state == DUE.state:
        await save_session(tx, parent, parent.control.after_wake())


async def _insert_notice(tx: Tx, done: Task, state: str) -> None:
    columns = done.id, done.run, done.parent_id, await tx.rev(), state, state != CONSUMED.state
    await tx.one("insert_notice", *columns, encode(task_end(done)))


def _finish_reason(step: MessageWithParts | None) -> str:
    """The finish reason of the last step of a run; empty: there was no step."""
    finish = step.info.finish if step and isinstance(step.info, AssistantMessage) else None
    return finish or ""


async def _settle_waiting_calls(tx: Tx, task: Task, done: Task) -> bool:
    """Settle the calls whose result is the end of this task. False: there are none."""
    waiting = await _waiting_calls(tx, task)
    for call in waiting:
        row = await require_session(tx, call.session_id)
        await settle_open(tx, row, call, await _result(tx, done, call))
    return bool(waiting)


async def _waiting_calls(tx: Tx, task: Task) -> list[Call]:
    """Read the calls that still wait for a task; an aborted turn has settled its own."""
    rows = [await tx.one("call", call_id) for call_id in task.calls]
    return [call for call in _readable([row for row in rows if row]) if waits_for(call) is not None]


async def _open_calls(tx: Tx, session_id: SessionId) -> list[Call]:
    return _readable(await tx.all("open_calls", session_id))


def _readable(rows: list[Row]) -> list[Call]:
    """Decode the readable calls; the others fail their own session, not the end of this task."""
    calls = []
    for row in rows:
        with suppress(Unreadable):
            calls.append(decode_call(row))
    return calls


async def _result(tx: Tx, done: Task, call: Call) -> Result:
    assert call.open is not None, "only open calls wait"
    calls = [decode_call(row) for row in await tx.all("last_calls", done.id, SHOWN_CALLS)]
    metadata = {
        **call.open.metadata,
        "status": done.status,
        "summary": call_summaries(tuple(reversed(calls))),
    }
    output = texts.sync_output_text(texts.shorten_task(done))
    if done.status == "completed":
        return Completed(output, call.open.title or done.description, metadata)
    return Failed(output, metadata)


def call_summaries(calls: tuple[Call, ...]) -> list[dict[str, object]]:
    """Summarize a child's calls for the metadata of the parent's call."""
    return [{"id": call.part_id, "tool": call.tool, "state": _call_state(call)} for call in calls]


def _call_state(call: Call) -> dict[str, str]:
    match call.state:
        case Settled(Completed(title=title)):
            return {"status": "completed", "title": title}
        case Settled(Failed()):
            return {"status": "error"}
        case _:
            return {"status": "running"}


async def _watching_calls(tx: Tx, done: Task) -> list[Call]:
    """Read the calls of the parent that watch this task, or any."""
    calls = await _open_calls(tx, done.parent_id)
    watches = [(call, call.open.watch) for call in calls if call.open and call.open.watch]
    return [call for call, wait in watches if wait.any or wait.task_id == done.id]


async def _settle_watching_calls(tx: Tx, done: Task, waits: list[Call]) -> bool:
    """Settle the calls that watch a task. True: the result of one of them is the end of this task."""
    known = False
    for call in waits:
        assert call.open is not None and call.open.watch is not None, "it waits for a task"
        row = await require_session(tx, done.parent_id)
        await settle_open(tx, row, call, await watched_result(tx, call))
        known = known or call.open.watch.task_id == done.id
    return known


async def watched_result(tx: Tx, call: Call) -> Completed:
    """Build the result of a call that watches a task; if the task has ended, its notice is consumed."""
    assert call.open is not None and call.open.watch is not None, "it waits for a task"
    wait = call.open.watch
    task = await find_task(tx, wait.task_id)
    metadata = {**call.open.metadata, "sessionId": wait.task_id}
    if task is None:
        return Completed(texts.missing_session_text(wait.task_id), call.open.title, metadata)
    output = await _task_text(tx, task, wait)
    return Completed(output, call.open.title or task.description, metadata)


async def _task_text(tx: Tx, task: Task, wait: WaitFor) -> str:
    if not task.live:
        task = replace(task, retrieved=tx.now)
        await tx.run("consume_notices", task.id, task.run)
        await put_task(tx, task)
    task = texts.shorten_task(task)
    if wait.tool == "async_task_result":
        return texts.async_task_result_text(task)
    return texts.task_output_text(task, await progress(tx, task), tx.now)


async def _last_step(tx: Tx, session_id: SessionId) -> MessageWithParts | None:
    """Read the child's newest step, leaving out completed summaries."""
    before = AFTER_ALL_POSITIONS
    while rows := await tx.all("placed_before", session_id, before, LOOK_BACK):
        for message_id, before, turn, info, version in rows:  # noqa: B007  the next page begins there
            if not turn:  # copied from the parent by a fork
                return None
            message = decode_message(upcast(version, info))
            if isinstance(message, AssistantMessage) and not (message.summary and message.error is None):
                parts = await tx.all("message_parts", message_id)
                return MessageWithParts(info=message, parts=tuple(map(read_part, parts)))
    return None
