"""Applies facts: changes that must commit together with a result, an open call or a rest."""

from contextlib import suppress
from typing import assert_never

from asyncagents.domain.call.call import ABORTED, Call, Failed, Open, Result, Settled, move_call
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
from asyncagents.domain.session_state import Claim
from asyncagents.domain.task.texts import (
    foreign_task_text,
    no_such_task_text,
    task_gone_text,
    too_deep_text,
    too_many_text,
)
from asyncagents.errors import AlreadySettled, NotFound
from asyncagents.store.row import SessionRow, claimed_session, find_session, put_call, require_call
from asyncagents.store.tx import Tx
from asyncagents.store.verb import cancel, task, todo
from asyncagents.store.verb.admit import admit_input
from asyncagents.store.verb.answer_event import publish_ask, save_answer
from asyncagents.store.verb.delivery import enqueue_webhook
from asyncagents.store.verb.settle import settle_call, settle_open
from asyncagents.store.verb.spawn import spawn
from asyncagents.store.verb.task_end import watched_result


async def apply_facts(tx: Tx, facts: tuple[Fact, ...]) -> None:
    """Apply facts; one about a settled call or a deleted row is dropped."""
    for fact in facts:
        with suppress(AlreadySettled, NotFound):
            await _apply_fact(tx, fact)


async def _apply_fact(tx: Tx, fact: Fact) -> None:  # noqa: C901  one arm each
    match fact:
        case Admit():
            await admit_input(tx, fact)
        case Settle():
            await settle_call(tx, fact)
        case WriteTodos():
            await todo.write_todos(tx, fact)
        case Spawn():
            await spawn(tx, fact)
        case Resume():
            await task.resume_task(tx, fact)
        case Retrieve():
            await task.retrieve_result(tx, fact)
        case CancelTasks():
            await cancel.cancel_tasks(tx, fact)
        case ClearTasks():
            await cancel.clear_tasks(tx, fact)
        case KeepSecret(session_id, call_id, direction, secret):
            await tx.run("put_call_secret", call_id, direction, session_id, secret)
        case _:
            assert_never(fact)


async def finish_call(  # noqa: PLR0917  four beside `tx`
    tx: Tx, claim: Claim, call_id: CallId, result: Result, facts: tuple[Fact, ...] = ()
) -> Call:
    """Settle a call that the run executed and apply its facts; a result that came from outside stays."""
    row = await claimed_session(tx, claim)
    call = await require_call(tx, call_id)
    if isinstance(call.state, Settled):
        return call
    refused = await refusal(tx, row, facts)
    call = await settle_open(tx, row, call, refused or result)
    if refused is None:
        await apply_facts(tx, facts)
    return call


async def open_call(  # noqa: PLR0917  four beside `tx`
    tx: Tx, claim: Claim, call_id: CallId, state: Open, facts: tuple[Fact, ...] = ()
) -> None:
    """Open a call that the run executed and apply its facts; a result that came from outside stays."""
    row = await claimed_session(tx, claim)
    call = await require_call(tx, call_id)
    if isinstance(call.state, Settled):
        if state.later is not None:  # the webhook URL was not known when the result arrived
            await apply_facts(tx, facts)
            await enqueue_webhook(tx, call.with_state(state).with_state(call.state))
        return
    refused = await refusal(tx, row, facts)
    if refused is not None:
        await settle_open(tx, row, call, refused)
        return
    before, call = call, move_call(call, state, tx.now)
    await save_answer(tx, before, call)
    await put_call(tx, call)
    publish_ask(tx, call)
    await apply_facts(tx, facts)
    await _recheck_watched_task(tx, claim, call.id)


async def _recheck_watched_task(tx: Tx, claim: Claim, call_id: CallId) -> None:
    """Settle a call at once if the task it watches ended before the call was opened."""
    call = await require_call(tx, call_id)
    wait = call.open.watch if call.open else None
    if wait is None:
        return
    found = await task.find_task(tx, wait.task_id)
    row = await claimed_session(tx, claim)
    due = await tx.one("count_due", row.control.id)
    if found is None or not found.live or (wait.any and due and due[0]):
        await settle_open(tx, row, call, await watched_result(tx, call))


async def refusal(tx: Tx, row: SessionRow, facts: tuple[Fact, ...]) -> Failed | None:
    """Refuse launches in a cancelled turn or beyond the limits, and follow-ups to tasks that are gone."""
    if row.control.is_cancelled() and any(isinstance(fact, Spawn | Resume) for fact in facts):
        return Failed(ABORTED)
    for fact in facts:
        why_not = None
        if isinstance(fact, Spawn):
            why_not = await _over_limits(tx, row, fact)
        elif isinstance(fact, Resume):
            why_not = await _missing_task(tx, fact)
        if why_not is not None:
            return Failed(why_not)
    return None


async def _over_limits(tx: Tx, row: SessionRow, fact: Spawn) -> str | None:
    if row.control.depth >= fact.deepest:
        return too_deep_text(fact.deepest)
    for statement in ("most_launched", "launched"):
        count = await tx.one(statement, row.control.id)
        if count is not None and count[0] < fact.most:
            return None
    return too_many_text(fact.most)


async def _missing_task(tx: Tx, fact: Resume) -> str | None:
    exists = await find_session(tx, fact.task_id) is not None
    if await task.find_task(tx, fact.task_id) is None:
        return foreign_task_text(fact.task_id) if exists else no_such_task_text(fact.task_id)
    return None if exists else task_gone_text(fact.task_id)
