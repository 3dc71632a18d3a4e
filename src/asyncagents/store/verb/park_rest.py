"""Parks and rests sessions: ends a run, and does in the same transaction what follows from that."""

from msgspec.structs import replace

from asyncagents.domain.call.call import ABORTED
from asyncagents.domain.conversation.codec import decode_message, upcast
from asyncagents.domain.conversation.failure import Failure, aborted_error, unknown_error
from asyncagents.domain.conversation.message import AssistantMessage, MessagePath, MessageTime, UserMessage
from asyncagents.domain.conversation.session import Session, Tokens
from asyncagents.domain.event import SessionError
from asyncagents.domain.fact import Fact
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.session_state import Claim, Control, RestReason, is_final, waits_outside
from asyncagents.store.row import (
    SessionRow,
    claimed_session,
    find_backoff,
    inbox,
    insert_message,
    last_message,
    save_message,
    save_session,
    unsettled_calls,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.child_wait import mark_waiting_calls, refresh_waits
from asyncagents.store.verb.external import end_external_prompt
from asyncagents.store.verb.fact import apply_facts
from asyncagents.store.verb.queue import make_room
from asyncagents.store.verb.settle import dismiss
from asyncagents.store.verb.step import end_backoff
from asyncagents.store.verb.task_end import conclude_task
from asyncagents.store.verb.turn_end import answer_turn, publish_answer

CRASH_LOOP = (
    "crash_loop: this session was taken up several times, and each time its run ended before anything was "
    "finished: the process stopped, or the log says why. It rests now; the next prompt tries again."
)


async def park(tx: Tx, claim: Claim, wake_seq: int) -> bool:
    """Park: end the run with calls open. False: the session was woken since the decision, go on."""
    row = await claimed_session(tx, claim)
    if row.control.wake_seq > wake_seq:
        return False
    calls = await refresh_waits(tx, await unsettled_calls(tx, row.control.id))
    outside = waits_outside(row.control, calls)
    last = await last_message(tx, row.control)
    if isinstance(last, AssistantMessage) and (outside or is_final(last)):
        await answer_turn(tx, row.control, last.id)
    await save_session(tx, row, row.control.after_park())
    if (backoff := await find_backoff(tx, row.control)) is not None:
        tx.schedule(backoff.next_at)  # again: the sweep skipped it while the session was running
    await mark_waiting_calls(tx, row.control, waits=outside)
    await make_room(tx, row.control)
    return True


async def rest(  # noqa: PLR0917  four beside `tx`
    tx: Tx, claim: Claim, wake_seq: int, reason: RestReason, facts: tuple[Fact, ...] = ()
) -> bool:
    """Rest: apply facts and end the turn. False: the session was woken since the decision, go on."""
    row = await claimed_session(tx, claim)
    if row.control.wake_seq > wake_seq:
        return False
    if facts:
        await apply_facts(tx, facts)
        row = await claimed_session(tx, claim)  # a fact may be about this very session
    control = row.control
    if reason == "aborted":
        control = await _give_up(tx, row, aborted_error())
    elif reason == "crash_loop":
        await tx.all("hold_inputs", await tx.rev(), control.id)
        control = await _give_up(tx, row, unknown_error(CRASH_LOOP))
    elif reason == "ran":
        await answer_turn(tx, control, await _complete_step(tx, control))
    else:
        if reason == "error":  # a summary may fail after a crash in a prompt of an external agent
            await end_external_prompt(tx, control.id)
        await answer_turn(tx, control, await _last_step_id(tx, control))
    await end_backoff(tx, control, reuse=False)
    unread = await inbox(tx, control.id)
    rested = control.after_rest(unread=unread.queued + unread.notices > 0)
    await save_session(tx, row, rested)
    blocked = reason == "blocked" or (reason == "done" and control.blocked_turn == control.turn > 0)
    await conclude_task(tx, control, row.info, crashed=reason == "crash_loop", blocked=blocked)
    await make_room(tx, control)
    return True


async def _give_up(tx: Tx, row: SessionRow, failure: Failure) -> Control:
    """Dismiss the open calls and close the turn with an error, which answers all its prompts."""
    for call in await unsettled_calls(tx, row.control.id):
        await dismiss(tx, row.info, call, ABORTED)
    await end_external_prompt(tx, row.control.id)
    control, answer = await _failed_step(tx, row, failure)
    await answer_turn(tx, control, answer)
    if answer is not None:
        for (message_id,) in await tx.all("answer_aborted", answer, await tx.rev(), control.id):
            publish_answer(tx, control.id, message_id, answer)
    return control


async def _failed_step(tx: Tx, row: SessionRow, failure: Failure) -> tuple[Control, MessageId | None]:
    """Write the error into the last step of the turn; without one, into a new message."""
    last = await last_message(tx, row.control)
    if not isinstance(last, AssistantMessage) or last.error != failure:  # else published with that step
        tx.emit(SessionError(session_id=row.control.id, error=failure))
    if isinstance(last, AssistantMessage):
        if not is_final(last) or (asked_by := await _newest_held_back(tx, row.control.id)) is None:
            if last.error is None:
                await save_message(tx, _with_error(last, failure, tx.now))
            return row.control, last.id
        await answer_turn(tx, row.control, last.id)  # it stays the answer to the prompts before it
    elif (asked_by := last or await _newest_held_back(tx, row.control.id)) is None:
        return row.control, None
    step = _empty_step(tx, row.info, asked_by)
    control = replace(row.control, positions=row.control.positions + 1)
    await insert_message(
        tx, _with_error(step, failure, tx.now), position=control.positions, turn=control.turn
    )
    return control, step.id


def _with_error(step: AssistantMessage, failure: Failure, now: int) -> AssistantMessage:
    return replace(step, error=failure, time=replace(step.time, completed=step.time.completed or now))


def _empty_step(tx: Tx, info: Session, asked_by: UserMessage) -> AssistantMessage:
    return AssistantMessage(
        id=tx.ids.message(),
        session_id=info.id,
        parent_id=asked_by.id,
        time=MessageTime(created=tx.now),
        model_id=asked_by.model.model_id,
        provider_id=asked_by.model.provider_id,
        mode=asked_by.agent,
        agent=asked_by.agent,
        path=MessagePath(cwd=info.directory, root=info.directory),
        cost=0,
        tokens=Tokens.zero(),
    )


async def _last_step_id(tx: Tx, control: Control) -> MessageId | None:
    last = await last_message(tx, control)
    return last.id if isinstance(last, AssistantMessage) else None


async def _complete_step(tx: Tx, control: Control) -> MessageId | None:
    """Complete the step of a shell command, which no model request completes."""
    last = await last_message(tx, control)
    assert isinstance(last, AssistantMessage), "the step holds the call"
    await save_message(tx, replace(last, time=replace(last.time, completed=tx.now)))
    return last.id


async def _newest_held_back(tx: Tx, session_id: SessionId) -> UserMessage | None:
    row = await tx.one("newest_aborted", session_id)
    message = decode_message(upcast(row[1], row[0])) if row else None
    return message if isinstance(message, UserMessage) else None
