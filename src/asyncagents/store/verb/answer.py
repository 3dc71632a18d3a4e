"""Answers an ask or a question, once, by compare-and-set."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    WRITTEN_BY_PERSON,
    Always,
    Answers,
    Call,
    CallState,
    Once,
    Open,
    Reject,
    Reply,
    Requested,
    Running,
    Settled,
)
from asyncagents.domain.call.elicitation import form_responses
from asyncagents.domain.call.reply import describe_reply, reply_result
from asyncagents.domain.envelope import one_line
from asyncagents.errors import Conflict, InvalidInput, NotFound
from asyncagents.store.row import (
    SessionRow,
    decode_call,
    put_call,
    require_call,
    require_session,
    save_session,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.answer_event import publish_answers, publish_reply
from asyncagents.store.verb.approval import approvals, approve, approved_as, covers
from asyncagents.store.verb.settle import check_deadline, result_excerpt, settle_open

FORM_FILLED = "A person has answered; the answer is sent to the server."
_replies: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


async def answer(tx: Tx, ask_id: str, reply: Reply, *, ask_hash: str | None = None, by: str = "") -> Call:
    """Answer an open ask or question. The same reply again changes nothing; another one raises `Conflict`.

    `by`: the name the answering person gives; it is not part of the comparison.
    """
    call = await _find_asking_call(tx, ask_id)
    if call is None:
        return await _repeat_answer(tx, ask_id, reply)
    if call.reply is not None:
        if call.reply == reply:
            return call
        raise _answer_conflict(ask_id, call.reply, call.answered_by)
    state = _require_open(call, ask_id, ask_hash)
    check_deadline(state, tx.now)
    call = replace(call, answered_by=by)
    if isinstance(reply, Once | Always):
        return await _approve(tx, call, state, reply)
    if call.server_task is not None:
        return await _fill_form(tx, call, state, reply)
    result = reply_result(state, reply, by)
    _publish(tx, call, reply)
    row = await require_session(tx, call.session_id)
    return await settle_open(tx, row, replace(call, reply=reply), result)


async def _fill_form(tx: Tx, call: Call, state: Open, reply: Answers | Reject) -> Call:
    """Store the reply to the forms of a server: it is sent there, and the call goes on."""
    assert call.server_task is not None, "checked by the caller"
    form_responses(call.server_task.requests, reply)  # raises for answers that do not fit
    _publish(tx, call, reply)
    filled = replace(call, reply=reply, state=replace(state, question=None, note=FORM_FILLED))
    await put_call(tx, filled)
    return filled


def _publish(tx: Tx, call: Call, reply: Answers | Reject) -> None:
    if isinstance(reply, Answers):
        publish_answers(tx, call, reply.answers)
    else:
        publish_reply(tx, call, "reject")


async def _find_asking_call(tx: Tx, ask_id: str) -> Call | None:
    """Find the call of an ask id; the id of a pending call that asks a question is accepted as well."""
    found = await tx.one("call_by_ask", ask_id)
    if found is not None:
        return decode_call(found)
    other = await tx.one("call", ask_id)
    call = decode_call(other) if other is not None else None
    questions = call is not None and call.later is not None and str(call.ask_id).startswith("que_")
    return call if questions else None


async def _repeat_answer(tx: Tx, ask_id: str, reply: Reply) -> Call:
    """Handle a reply to an earlier ask of a call that has asked again since."""
    row = await tx.one("answered", ask_id)
    if row is None:
        raise NotFound("ask", ask_id)
    before = _replies.decode(row[1])
    if before != reply:
        raise _answer_conflict(ask_id, before)
    return await require_call(tx, row[0])


def _answer_conflict(ask_id: str, first: Reply, by: str = "") -> Conflict:
    suffix = f" by {one_line(by)}" if by else ""
    return Conflict(f"ask {ask_id!r} was already answered otherwise{suffix}: {describe_reply(first)}")


def _require_open(call: Call, ask_id: str, ask_hash: str | None) -> Open:
    if isinstance(call.state, Settled):
        raise Conflict(
            f"ask {ask_id!r} is no longer open; its call has a result: {result_excerpt(call.state.result)}"
        )
    if call.open is None:
        raise Conflict(f"ask {ask_id!r} is no longer open")
    if ask_hash is not None and ask_hash != call.open.ask_hash:
        raise Conflict(f"ask {ask_id!r} is about something else now; look at it again")
    return call.open


async def _approve(tx: Tx, call: Call, state: Open, reply: Once | Always) -> Call:
    if state.ask is None:
        raise InvalidInput(f"{call.ask_id!r} is a question; give its answers, or reject it")
    if isinstance(reply, Always) and not state.ask.always:
        raise InvalidInput(f"{call.ask_id!r} cannot be allowed for good; answer it once")
    row = await require_session(tx, call.session_id)
    edited = reply.input if isinstance(reply, Once) else None
    if edited is not None and call.observed:
        raise InvalidInput(f"{call.ask_id!r} is of an external agent, whose arguments cannot be changed")
    granted = replace(
        call, state=_granted_state(call, state), reply=reply, granted=(*call.granted, state.ask_hash)
    )
    if edited is not None:
        granted = replace(granted, input=edited, written=call.repeat_key[1], granted=(WRITTEN_BY_PERSON,))
    await _release(tx, granted, call, "always" if isinstance(reply, Always) else "once")
    if isinstance(reply, Always):
        await approve(tx, row.info.project_id, approved_as(state.ask), state.ask.always)
        await _release_covered(tx, row)
    return granted


def _granted_state(call: Call, state: Open) -> CallState:
    """Return the state of an allowed call: it is planned again, or its external agent goes on with it.

    If the run in which that agent asked is gone, the call is abandoned.
    """
    return Running(state.fence) if call.observed else Requested()


async def _release(tx: Tx, granted: Call, asked: Call, reply: Literal["once", "always"]) -> None:
    """Return a call to be planned again: it starts if allowed by now, else it asks again."""
    publish_reply(tx, asked, reply)
    await put_call(tx, granted)
    row = await require_session(tx, asked.session_id)
    await save_session(tx, row, row.control.after_wake())


async def _release_covered(tx: Tx, row: SessionRow) -> None:
    """Release the other open asks of the tree that the new approval covers."""
    approved = await approvals(tx, row.info.project_id)
    for found in await tx.all("tree_asks", row.control.root_id):
        call = decode_call(found)
        state = call.open
        if state is None or state.ask is None or not covers(approved, state.ask):
            continue
        if (await require_session(tx, call.session_id)).info.project_id == row.info.project_id:
            released = replace(call, state=_granted_state(call, state), reply=Always())
            await _release(tx, released, call, "always")
