"""Expires overdue calls and tasks and wakes sessions whose next try is due, by the store's clock."""

from typing import Literal, TypeAlias

from msgspec.structs import replace

from asyncagents.domain.call.call import Call, Completed, Failed, Open, Result
from asyncagents.domain.call.reply import LATE_MS, overdue_note
from asyncagents.domain.conversation.codec import Unreadable
from asyncagents.domain.event import expiring_event
from asyncagents.domain.id import SessionId
from asyncagents.errors import NotFound
from asyncagents.store.row import (
    decode_call,
    put_call,
    require_call,
    require_session,
    save_session,
    unsettled_calls,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.answer_event import publish_reply
from asyncagents.store.verb.cancel import cancel
from asyncagents.store.verb.settle import settle_open
from asyncagents.store.verb.task import find_task
from asyncagents.store.verb.task_end import conclude_missed, watched_result

DueKind: TypeAlias = Literal["backoff", "call", "task"]
"""The kind of a row that becomes due."""


class SweepPosition:
    """The row that a sweep is working on: if the sweep fails, this row is the cause."""

    def __init__(self) -> None:
        self.kind: DueKind | None = None
        self.id = ""

    def move_to(self, kind: DueKind | None, id: str = "") -> None:
        self.kind, self.id = kind, id


async def expire_due(tx: Tx, limit: int, position: SweepPosition) -> int:
    """Expire overdue calls and tasks and wake sessions whose next try is due; returns how many rows."""
    position.move_to(None)
    count = await _wake_due_backoffs(tx, limit, position) + await _expire_calls(tx, limit, position)
    count += await _end_tasks(tx, limit, position)
    position.move_to(None)
    return count


async def put_off(tx: Tx, kind: str, id: str, until: int) -> None:
    """Postpone the due time of a row; its body stays as it is."""
    if kind == "backoff":
        await tx.run("put_off_backoff", until, id)
    else:
        await tx.run(f"put_off_{kind}", until, await tx.rev(), id)
    tx.schedule(until)


async def _wake_due_backoffs(tx: Tx, limit: int, position: SweepPosition) -> int:
    rows = await tx.all("due_backoffs", tx.now, limit)
    for session_id, request_id in rows:
        position.move_to("backoff", request_id)
        try:
            row = await require_session(tx, SessionId(session_id))
        except Unreadable:
            await tx.one("end_backoff", request_id)  # unreadable, so no run can take it: drop its due time
        else:
            await save_session(tx, row, row.control.after_wake())
    return len(rows)


async def _expire_calls(tx: Tx, limit: int, position: SweepPosition) -> int:
    rows = await tx.all("due_calls", tx.now, limit)
    blocked: set[SessionId] = set()
    for row in rows:
        position.move_to("call", row[0])
        try:
            call = decode_call(row[1:])
            if call.session_id in blocked:  # ending that turn may have settled this call
                call = await require_call(tx, call.id)
            if await _expire_call(tx, call):
                blocked.add(call.session_id)
        except Unreadable:
            await tx.one("forget_due", await tx.rev(), row[0])
    return len(rows)


async def _expire_call(tx: Tx, call: Call) -> bool:
    """Settle one overdue call; reads all it needs before it writes. True: that blocked the turn."""
    state = call.open
    if state is None:  # the expiry of a sibling has settled it
        return False
    if state.due is None or state.due > tx.now:
        await _warn(tx, call, state)
        return False
    row = await require_session(tx, call.session_id)
    blocks = isinstance(state.on_due, Failed) and state.on_due.blocks
    if blocks:
        await unsettled_calls(tx, call.session_id)
    publish_reply(tx, call, "reject")
    known = _overdue_result(state, tx.now)
    if state.watch:
        known = await watched_result(tx, call)
        row = await require_session(tx, call.session_id)
    await settle_open(tx, row, call, known, expired=True)
    return blocks


def _overdue_result(state: Open, now: int) -> Result:
    """The result of an expired call; a wait that ended much too late says how long ago it was due."""
    match state:
        case Open(kind="wait", due=int(due), on_due=Completed(output) as over) if now - due >= LATE_MS:
            return replace(over, output=f"{output}\n\n{overdue_note(now - due)}")
        case _:
            return state.on_due


async def _warn(tx: Tx, call: Call, state: Open) -> None:
    """Publish once that the call will expire soon; wakes no session."""
    await put_call(tx, call.with_state(replace(state, warn=None, warned=True)))
    tx.emit(expiring_event(call))


async def _end_tasks(tx: Tx, limit: int, position: SweepPosition) -> int:
    """Cancel tasks that are past their deadline."""
    rows = await tx.all("due_tasks", tx.now, limit)
    for (task_id,) in rows:
        position.move_to("task", task_id)
        try:
            if await _is_live(tx, SessionId(task_id)):
                await cancel(tx, SessionId(task_id), by="deadline")
        except NotFound:
            await conclude_missed(tx, SessionId(task_id))
        except Unreadable:
            await tx.run("forget_deadline", await tx.rev(), task_id)
    return len(rows)


async def _is_live(tx: Tx, task_id: SessionId) -> bool:
    """Whether the task is still live: the end of an ancestor in this sweep may have ended it."""
    task = await find_task(tx, task_id)
    return task is not None and task.live
