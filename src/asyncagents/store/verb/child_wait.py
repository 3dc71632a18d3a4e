"""Marks the calls that wait for a task with whether that task waits only for the outside.

A blocking prompt is held while a task of its session works, and returns when that task waits only for the
outside. So a session that parks, or is claimed again, marks the calls that wait for it and wakes their
session.
"""

from contextlib import suppress

from msgspec.structs import replace

from asyncagents.domain.call.call import Call, Open, WaitFor, render
from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.event import PartUpdated
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Control, waits_outside
from asyncagents.store.row import decode_call, find_session, put_call, save_session, unsettled_calls
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.task import live_tasks_of, readable_session, readable_task


async def mark_waiting_calls(tx: Tx, control: Control, *, waits: bool) -> None:
    """Mark the calls that wait for this session's task with whether it waits only for the outside."""
    for call in await _calls_above(tx, control):
        assert call.open is not None, "only open calls wait"
        if call.open.child_waits == waits:
            if not waits and call.open.kind == "task":  # progress is shown there, after a restart too
                tx.emit(PartUpdated(session_id=call.session_id, part=render(call), time=tx.now))
        elif not waits or call.open.watch is None or await _watched_tasks_wait(tx, call, call.open.watch):
            await _mark(tx, call, call.open, waits=waits)
    if control.parent_id is not None and control.turn:
        await _mark_further_up(tx, control.parent_id, waits=waits)


async def mark_rested_session(tx: Tx, control: Control) -> None:
    """Mark the calls that wait for a session that rests with open calls or live tasks."""
    await refresh_waits(tx, await unsettled_calls(tx, control.id))
    await mark_waiting_calls(tx, control, waits=await _task_waits(tx, control.id))


async def _mark_further_up(tx: Tx, parent_id: SessionId, *, waits: bool) -> None:
    """Mark the calls above a session that rests until its tasks end: it waits as they do."""
    with suppress(Unreadable):
        row = await find_session(tx, parent_id)
        if row is None or row.control.parent_id is None or row.control.state != "idle":
            return
        if not await unsettled_calls(tx, parent_id):
            await mark_waiting_calls(tx, row.control, waits=waits and await _task_waits(tx, parent_id))


async def _calls_above(tx: Tx, control: Control) -> list[Call]:
    """Read the open calls of the parent that wait for a session: sync ones, and those that watch tasks."""
    if control.parent_id is None:
        return []
    task = await readable_task(tx, control.id)
    rows = [await tx.one("call", call_id) for call_id in task.calls] if task else []
    calls = [call for call in _readable(rows) if call.open]
    if not control.turn:  # before its first turn nothing can have marked what watches it
        return calls
    waits = _readable(list(await tx.all("open_waits", control.parent_id)))
    return calls + [call for call in waits if _watches(call, control.id)]


def _watches(call: Call, task_id: SessionId) -> bool:
    wait = call.open.watch if call.open else None
    return wait is not None and (wait.any or wait.task_id == task_id)


def _readable(rows: list[Row | None]) -> list[Call]:
    """Decode the readable calls; an unreadable one fails only its own session."""
    calls = []
    for row in rows:
        with suppress(Unreadable):
            calls += [decode_call(row)] if row else []
    return calls


async def _mark(tx: Tx, call: Call, state: Open, *, waits: bool) -> None:
    """Mark a call; wake its session if it waits, so that it may answer; else mark the calls above it."""
    with suppress(Unreadable):
        row = await find_session(tx, call.session_id)
        await put_call(tx, call.with_state(replace(state, child_waits=waits)))
        if row is None:
            return
        await save_session(tx, row, row.control.after_wake() if waits else row.control)
        if not waits and row.control.state == "idle":
            await mark_waiting_calls(tx, row.control, waits=False)


async def refresh_waits(tx: Tx, calls: tuple[Call, ...]) -> tuple[Call, ...]:
    """Mark again the calls of a stopping session that watch tasks: those may have changed meanwhile."""
    return tuple([await _refresh_wait(tx, call) for call in calls])


async def _refresh_wait(tx: Tx, call: Call) -> Call:
    state = call.open
    if state is None or state.watch is None:
        return call
    waits = await _watched_tasks_wait(tx, call, state.watch)
    if waits != state.child_waits:
        call = call.with_state(replace(state, child_waits=waits))
        await put_call(tx, call)
    return call


async def _watched_tasks_wait(tx: Tx, call: Call, wait: WaitFor) -> bool:
    """Whether all tasks that a call watches wait only for the outside."""
    return await _children_wait(tx, call.session_id) if wait.any else await _task_waits(tx, wait.task_id)


async def _children_wait(tx: Tx, parent_id: SessionId) -> bool:
    """Whether a session has live tasks, and all of them wait only for the outside."""
    if await tx.one("is_child_at_work", parent_id) is not None:
        return False
    tasks = await live_tasks_of(tx, parent_id)
    for task in tasks:
        if not await _task_waits(tx, task.id):
            return False
    return bool(tasks)


async def _task_waits(tx: Tx, task_id: SessionId) -> bool:
    """Whether a task's session has stopped, and its calls, or else its own tasks, wait for the outside."""
    row = await readable_session(tx, task_id)
    if row is None or row.control.state != "idle":
        return False
    calls = await unsettled_calls(tx, task_id)
    return waits_outside(row.control, calls) if calls else await _children_wait(tx, task_id)
