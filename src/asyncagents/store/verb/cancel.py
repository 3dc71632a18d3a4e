"""Cancels a session and its descendants, with their tasks, in one transaction."""

from msgspec.structs import replace

from asyncagents.domain.body import check_names
from asyncagents.domain.call.call import ABORTED, Call, Running
from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.conversation.failure import aborted_error, failure_name
from asyncagents.domain.event import TaskCleared
from asyncagents.domain.fact import CancelTasks, ClearTasks
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Scope
from asyncagents.domain.task.task import EndedBy, TaskError, TaskOutcome
from asyncagents.store.row import SessionRow, inbox, require_session, save_session, unsettled_calls
from asyncagents.store.tx import Tx
from asyncagents.store.verb.idempotency import check_key, save_key
from asyncagents.store.verb.queue import make_room_anywhere
from asyncagents.store.verb.settle import dismiss
from asyncagents.store.verb.task import live_tasks_of, readable_session, readable_task, tasks_of
from asyncagents.store.verb.task_end import CONSUMED, DUE, QUIET, NoticeState, end_task

NO_LIMIT = 1_000_000_000


async def abort(
    tx: Tx, session_id: SessionId, *, by: EndedBy = "user", scope: Scope = "tree", key: str | None = None
) -> tuple[SessionId, ...]:
    """Cancel a session and its descendants, once per key: a repeat ends nothing that began after the first.

    Input that is not promoted is held back. Returns the sessions to wait for. Raises `KeyReused` if the key
    was used with another scope.
    """
    if key is None:
        return await cancel(tx, session_id, by=by, scope=scope)
    check_names(session_id, key)
    await require_session(tx, session_id)
    if await check_key(tx, session_id, "abort", key, hash=scope):
        return await _tree(tx, session_id, scope)
    await save_key(tx, session_id, "abort", key, hash=scope)
    return await cancel(tx, session_id, by=by, scope=scope)


async def cancel(
    tx: Tx,
    session_id: SessionId,
    *,
    by: EndedBy = "user",
    scope: Scope = "tree",
    notice: NoticeState = DUE,
) -> tuple[SessionId, ...]:
    """Cancel a session and its descendants; returns those that had something to end.

    Input that is not promoted is held back, kept and shown; open calls are settled. The parent of the session
    gets a notice in this state; the parents of the descendants are cancelled, too.
    """
    await require_session(tx, session_id)
    tree = await _tree(tx, session_id, scope)
    ended = [session_id]
    for each in tree:
        row = await require_session(tx, each) if each == session_id else await readable_session(tx, each)
        task = await readable_task(tx, each) if row is None or row.control.parent_id is not None else None
        live = task is not None and task.live
        if row is None:
            tx.interrupt(each)
        elif each == session_id or live or await _has_work(tx, row):
            await _cancel_session(tx, row)
            ended.append(each)
        if (
            task is not None
            and task.live
            and not (each == session_id and await _has_background_tasks(tx, each, scope))
        ):
            await end_task(tx, task, _cancel_outcome(by), notice=notice if each == session_id else QUIET)
    return tuple(dict.fromkeys(ended))


async def _tree(tx: Tx, session_id: SessionId, scope: Scope) -> tuple[SessionId, ...]:
    if scope == "tree":
        return tuple(SessionId(row[0]) for row in await tx.all("subtree", session_id))
    below: list[SessionId] = [session_id]
    for task in await live_tasks_of(tx, session_id):
        if not task.background:
            below += await _tree(tx, task.id, "tree")
    return tuple(below)


async def _has_background_tasks(tx: Tx, session_id: SessionId, scope: Scope) -> bool:
    """Whether background tasks go on below a session: then only its turn has ended, not its task."""
    return scope == "turn" and any(task.background for task in await live_tasks_of(tx, session_id))


def _cancel_outcome(by: EndedBy) -> TaskOutcome:
    failure = aborted_error()
    return TaskOutcome(
        status="cancelled", error=TaskError(failure_name(failure), failure.data.message), ended_by=by
    )


async def _has_work(tx: Tx, row: SessionRow) -> bool:
    """Whether there is anything to end."""
    control = row.control
    if control.state != "idle" or control.in_turn or control.backoff is not None:
        return True
    return bool(await tx.all("unread_inputs", control.id) or await unsettled_calls(tx, control.id))


async def _cancel_session(tx: Tx, row: SessionRow) -> None:
    session_id, rev = row.control.id, await tx.rev()
    await tx.one("insert_cancel", session_id, rev, tx.now)
    held_back = await tx.all("hold_inputs", rev, session_id)
    await tx.run("hush_notices", session_id)
    control = replace(row.control, cancel_rev=rev)
    if await _settle_outside_calls(tx, row) or control.in_turn or held_back or control.backoff is not None:
        control = control.after_wake()
        tx.interrupt(session_id)
    elif control.state == "ready" and not (await inbox(tx, session_id)).stranded:
        # It was woken by a notice, and now nothing is left to do.
        control = replace(control, state="idle")
    await save_session(tx, row, control)
    if control.state == "idle" and row.control.state == "ready":
        await make_room_anywhere(tx, control)  # it has left the queue


async def _settle_outside_calls(tx: Tx, row: SessionRow) -> bool:
    """Settle the calls that wait for the outside. True: a run must end the rest.

    Not left to the run that ends the turn: no process may be there to run it, and a result or a decision
    that comes after the cancel was acknowledged must be refused.
    """
    try:
        calls = await unsettled_calls(tx, row.control.id)
    except Unreadable:  # its descendants are cancelled all the same
        return True
    waiting = [call for call in calls if _waits_outside(call)]
    for call in waiting:
        await dismiss(tx, row.info, call, ABORTED)
    return len(waiting) < len(calls) or (bool(calls) and row.control.state != "idle")


def _waits_outside(call: Call) -> bool:
    """Whether a call waits for the outside: open but not for a task, or a pending call that is starting."""
    if call.open is not None:
        return call.open.kind != "task" and not call.open.watch
    return isinstance(call.state, Running) and call.later is not None


async def cancel_tasks(tx: Tx, fact: CancelTasks) -> None:
    """Cancel tasks on behalf of their parent, without a notice."""
    for task_id in fact.tasks:
        if await readable_session(tx, task_id) is not None:
            await cancel(tx, task_id, by=fact.by, notice=CONSUMED)
        elif (task := await readable_task(tx, task_id)) is not None and task.live:
            tx.interrupt(task_id)
            await end_task(tx, task, _cancel_outcome(fact.by), notice=CONSUMED)


async def clear_tasks(tx: Tx, fact: ClearTasks) -> None:
    """Cancel the live tasks of a session and delete all its task rows; the child sessions stay."""
    ended = {task.id for task in await tasks_of(tx, fact.session_id) if not task.live}
    every = await _all_task_ids(tx, fact.session_id)
    await cancel_tasks(tx, CancelTasks(tuple(each for each in every if each not in ended), "parent"))
    for each in every:
        await _forget_task(tx, each)


async def _all_task_ids(tx: Tx, session_id: SessionId) -> tuple[SessionId, ...]:
    """List the ids of all tasks of a session, also of unreadable ones."""
    return tuple(SessionId(row[0]) for row in await tx.all("task_ids", session_id, "", "~", NO_LIMIT))


async def _forget_task(tx: Tx, task_id: SessionId) -> None:
    await tx.run("delete_task_notices", task_id)
    await tx.run("keep_crowd", task_id)
    await tx.run("delete_task", task_id)
    await tx.one("insert_tombstone", await tx.rev(), "task", task_id, b"{}")
    tx.emit(TaskCleared(session_id=task_id))


async def delete_tasks(tx: Tx, session_id: SessionId) -> None:
    """Delete the task rows and the notices of a session that is being deleted."""
    for each in await _all_task_ids(tx, session_id):
        await _forget_task(tx, each)
    await tx.run("delete_notices", session_id)
