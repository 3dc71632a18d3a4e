"""Settles calls, once: writes the result, wakes the session, enqueues the webhook."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from asyncagents.domain.body import encode_body
from asyncagents.domain.call.call import (
    REJECTED_TOO,
    Call,
    Failed,
    Open,
    Requested,
    Result,
    Settled,
    render,
)
from asyncagents.domain.call.late_result import result_text
from asyncagents.domain.call.reply import utc_time
from asyncagents.domain.conversation.part import FilePart, TextPart, ToolCompleted
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.system_message import MessageTarget, build_system_message
from asyncagents.domain.fact import Admit, Settle
from asyncagents.domain.id import MessageId
from asyncagents.domain.shape import encode
from asyncagents.errors import AlreadySettled, Conflict
from asyncagents.store.row import (
    SessionRow,
    model_ref,
    put_call,
    require_call,
    require_session,
    save_session,
    unsettled_calls,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.answer_event import publish_reply
from asyncagents.store.verb.delivery import enqueue_webhook
from asyncagents.store.verb.inbox import insert_input, put_in_inbox

_results: msgspec.json.Decoder[Result] = msgspec.json.Decoder(Result)


async def settle_call(tx: Tx, fact: Settle, *, unless_checked: bool = False) -> Call:
    """Settle a call, once. The same result again returns the call; another raises `AlreadySettled`.

    With `unless_checked` a call whose tool checks its result first is left open.
    """
    call = await require_call(tx, fact.call_id)
    if isinstance(call.state, Settled):
        if not _is_same_result(call.state.result, fact.result):
            raise AlreadySettled(call.id, result_excerpt(call.state.result))
        return call
    _check_open(call)
    if call.open is not None:
        check_deadline(call.open, tx.now)
    if unless_checked and call.later is not None and call.later.checked:
        return call
    publish_reply(tx, call, "reject")  # its question needs no answer any more
    return await settle_open(tx, await require_session(tx, call.session_id), call, fact.result)


def _is_same_result(stored: Result, given: Result) -> bool:
    """Compare results; a stored one has been through JSON."""
    return stored == given or stored == _results.decode(encode_body(given))


def result_excerpt(result: Result) -> str:
    """First 200 characters of the stored result, for the conflict message."""
    return encode(result).decode()[:200]


def _check_open(call: Call) -> None:
    """Raise `Conflict` unless the call accepts a result from outside; a pending call always does."""
    if call.later is not None:
        return
    if isinstance(call.state, Requested):
        raise Conflict(f"call {call.id!r} has not started; it takes no result yet")
    if call.only_asks:
        raise Conflict(f"call {call.id!r} asks a person; answer {call.ask_id!r} instead")
    if call.open and (call.open.kind == "task" or call.open.watch):
        raise Conflict(f"call {call.id!r} waits for a task; cancel the task instead")


def check_deadline(state: Open, now: int) -> None:
    """Refuse a decision after its deadline even if the sweep has not expired it yet."""
    if state.has_lapsed(now):
        raise Conflict(
            f"the time to decide was over at {utc_time(state.due or 0)}; it counts as not approved"
        )


async def settle_open(tx: Tx, row: SessionRow, call: Call, result: Result, *, expired: bool = False) -> Call:
    """Settle a call, wake its session, and enqueue its webhook; a blocking failure rejects its siblings."""
    done = call.with_state(Settled(result, tx.now, expired))
    await put_call(tx, done)
    await enqueue_webhook(tx, done)
    control = row.control.after_wake().after_progress()
    if isinstance(result, Failed) and result.blocks and call.turn == control.turn:
        control = replace(control, blocked_turn=control.turn)
        await _reject_siblings(tx, row.info, done)
    row = await save_session(tx, row, control)
    if done.shown_pending:
        await put_in_inbox(tx, _late_result(tx, row.info, done, wakes=True))
    return done


async def _reject_siblings(tx: Tx, info: Session, rejected: Call) -> None:
    """Dismiss the calls of the session that have not started; running ones may finish."""
    for call in await unsettled_calls(tx, rejected.session_id):
        if isinstance(call.state, Requested) or call.only_asks:
            await dismiss(tx, info, call, REJECTED_TOO)


async def dismiss(tx: Tx, info: Session, call: Call, why: str) -> None:
    """Settle a call as failed without a wake; the model reads the result with the next input."""
    publish_reply(tx, call, "reject")
    over = call.with_state(Settled(Failed(why), tx.now))
    await put_call(tx, over)
    await enqueue_webhook(tx, over)
    if over.shown_pending:
        await insert_input(tx, _late_result(tx, info, over, wakes=False))


def _late_result(tx: Tx, info: Session, call: Call, *, wakes: bool) -> Admit:
    """Build the input that brings the result of a call that was shown to the model as pending."""
    assert info.agent is not None and info.model is not None
    target = MessageTarget(info.id, info.agent, model_ref(info.model))
    system_message = build_system_message(target, result_text(call), ids=tx.ids, now=tx.now)
    key = f"result:{call.id}"
    parts: tuple[TextPart | FilePart, ...] = (
        system_message.part,
        *_late_files(tx, call, system_message.message.id),
    )
    return Admit(message=system_message.message, parts=parts, key=key, source="system", wakes=wakes)


def _late_files(tx: Tx, call: Call, message_id: MessageId) -> Iterator[FilePart]:
    """Copy the attachments of a late result into its message."""
    done = render(call).state
    for file in (done.attachments or ()) if isinstance(done, ToolCompleted) else ():
        yield replace(file, id=tx.ids.part(), message_id=message_id)
