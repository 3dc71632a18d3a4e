"""Applies facts: changes that must commit together with a result, an open call or a rest."""

from contextlib import suppress
from typing import assert_never

from asyncagents.domain.call.call import ABORTED, Call, Failed, Open, Settled, moved
from asyncagents.domain.control import Lease
from asyncagents.domain.fact import (
    Admit,
    CancelTasks,
    ClearTasks,
    Fact,
    KeepSecret,
    Resume,
    Retrieve,
    Settle,
    Spawn,
    WriteTodos,
)
from asyncagents.domain.id import CallId
from asyncagents.domain.task.texts import foreign_task, no_such_task, too_deep, too_many, vanished
from asyncagents.errors import AlreadySettled, NotFound
from asyncagents.store.row import SessionRow, find_session, held, put_call, the_call
from asyncagents.store.tx import Tx
from asyncagents.store.verb import cancel, task, todo
from asyncagents.store.verb.answer_event import asked, keep_answer
from asyncagents.store.verb.delivery import owe
from asyncagents.store.verb.signal import admit, settle, settle_open
from asyncagents.store.verb.spawn import spawn
from asyncagents.store.verb.task_end import watched


async def apply(tx: Tx, facts: tuple[Fact, ...]) -> None:
    """Apply facts; one about a settled call or a deleted row is dropped."""
    for fact in facts:
        with suppress(AlreadySettled, NotFound):
            await _apply(tx, fact)


async def _apply(tx: Tx, fact: Fact) -> None:  # noqa: C901  one arm each
    match fact:
        case Admit():
            await admit(tx, fact)
        case Settle():
            await settle(tx, fact)
        case WriteTodos():
            await todo.write(tx, fact)
        case Spawn():
            await spawn(tx, fact)
        case Resume():
            await task.resume(tx, fact)
        case Retrieve():
            await task.retrieve(tx, fact)
        case CancelTasks():
            await cancel.cancel_tasks(tx, fact)
        case ClearTasks():
            await cancel.clear_tasks(tx, fact)
        case KeepSecret(session_id, call_id, direction, secret):
            await tx.run("put_call_secret", call_id, direction, session_id, secret)
        case _:
            assert_never(fact)


async def finish(tx: Tx, lease: Lease, fact: Settle, facts: tuple[Fact, ...]) -> Call:
    """Settle a call of the run and apply its facts; if the call is settled already, do nothing."""
    row = await held(tx, lease)
    call = await the_call(tx, fact.call_id)
    if isinstance(call.state, Settled):
        return call
    refused = await refusal(tx, row, facts)
    call = await settle_open(tx, row, call, refused or fact.result)
    if refused is None:
        await apply(tx, facts)
    return call


async def open_call(
    tx: Tx, lease: Lease, call_id: CallId, state: Open, *, facts: tuple[Fact, ...] = ()
) -> None:
    """Open a call of the run and apply its facts; a call that is settled already stays so."""
    row = await held(tx, lease)
    call = await the_call(tx, call_id)
    if isinstance(call.state, Settled):
        if state.later is not None:  # the webhook URL was not known when the result arrived
            await apply(tx, facts)
            await owe(tx, call.to(state).to(call.state))
        return
    refused = await refusal(tx, row, facts)
    if refused is not None:
        await settle_open(tx, row, call, refused)
        return
    before, call = call, moved(call, state, tx.now)
    await keep_answer(tx, before, call)
    await put_call(tx, call)
    asked(tx, call)
    await apply(tx, facts)
    await _look_again(tx, lease, call.id)


async def _look_again(tx: Tx, lease: Lease, call_id: CallId) -> None:
    """Settle a call at once if the task it watches ended before the call was opened."""
    call = await the_call(tx, call_id)
    watch = call.open.watch if call.open else None
    if watch is None:
        return
    found = await task.find_task(tx, watch.task_id)
    row = await held(tx, lease)
    due = await tx.one("count_due", row.control.id)
    if found is None or not found.live or (watch.any and due and due[0]):
        await settle_open(tx, row, call, await watched(tx, call))


async def refusal(tx: Tx, row: SessionRow, facts: tuple[Fact, ...]) -> Failed | None:
    """Refuse launches in a cancelled turn or beyond the limits, and follow-ups to tasks that are gone."""
    if row.control.cancelled() and any(isinstance(fact, Spawn | Resume) for fact in facts):
        return Failed(ABORTED)
    for fact in facts:
        why_not = None
        if isinstance(fact, Spawn):
            why_not = await _over_limits(tx, row, fact)
        elif isinstance(fact, Resume):
            why_not = await _gone(tx, fact)
        if why_not is not None:
            return Failed(why_not)
    return None


async def _over_limits(tx: Tx, row: SessionRow, fact: Spawn) -> str | None:
    if row.control.depth >= fact.deepest:
        return too_deep(fact.deepest)
    for statement in ("most_launched", "launched"):
        count = await tx.one(statement, row.control.id)
        if count is not None and count[0] < fact.most:
            return None
    return too_many(fact.most)


async def _gone(tx: Tx, fact: Resume) -> str | None:
    exists = await find_session(tx, fact.task_id) is not None
    if await task.find_task(tx, fact.task_id) is None:
        return foreign_task(fact.task_id) if exists else no_such_task(fact.task_id)
    return None if exists else vanished(fact.task_id)
