"""External agents: their sessions, and the calls that they execute and we only observe."""

import msgspec
from msgspec.structs import replace

from asyncagents.domain.agent.external_session import ExternalSession
from asyncagents.domain.body import encode_body
from asyncagents.domain.call.call import Call, Open, Reject, Running, Settled, move_call
from asyncagents.domain.conversation.codec import DECODE_ERRORS, unreadable_error
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.fact import Fact
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.store.row import (
    check_claim,
    claimed_session,
    decode_call,
    put_call,
    require_call,
    save_session,
    unsettled_calls,
)
from asyncagents.store.tx import Tx
from asyncagents.store.verb.answer_event import publish_ask, publish_reply
from asyncagents.store.verb.fact import apply_facts
from asyncagents.store.verb.settle import dismiss

_sessions = msgspec.json.Decoder(ExternalSession)


async def read_external_session(tx: Tx, session_id: SessionId) -> ExternalSession | None:
    """Read the external session of a session; None: it has none."""
    row = await tx.one("external_session", session_id)
    if row is None:
        return None
    try:
        return _sessions.decode(row[0])
    except DECODE_ERRORS as error:
        raise unreadable_error("external session", row[0], error) from error


async def save_external_session(tx: Tx, claim: Claim, external: ExternalSession) -> None:
    """Write the external session of a claimed session, with the prompt that is about to be sent."""
    await check_claim(tx, claim)
    await _put_external_session(tx, external)


async def _put_external_session(tx: Tx, external: ExternalSession) -> None:
    sent = external.prompt.sent if external.prompt else None
    await tx.rev()
    await tx.one(
        "put_external_session", external.session_id, external.external_id, sent, encode_body(external)
    )


async def end_external_prompt(
    tx: Tx, session_id: SessionId, *, cost: float = 0.0, arrived: bool = False
) -> None:
    """Remove the mark of a prompt under way, and add what the prompt cost. `arrived`: it had an effect."""
    external = await read_external_session(tx, session_id)
    if external is not None and external.prompt is not None:
        ended = replace(external, prompt=None, cost=external.cost + cost)
        await _put_external_session(tx, replace(ended, introduced=external.introduced or arrived))


async def observe_calls(tx: Tx, claim: Claim, calls: tuple[Call, ...], facts: tuple[Fact, ...] = ()) -> None:
    """Write observed calls as their agent shows them now; a settled one never changes.

    A call that asks stays open until its answer, unless its agent ends it before.
    """
    row = await claimed_session(tx, claim)
    for call in calls:
        await _observe_call(tx, call)
    if facts:
        await apply_facts(tx, facts)
    if row.control.claims and any(isinstance(call.state, Settled) for call in calls):
        await save_session(tx, row, row.control.after_progress())


async def _observe_call(tx: Tx, call: Call) -> None:
    found = await tx.one("call", call.id)
    before = decode_call(found) if found else None
    if before is None:
        await put_call(tx, move_call(call, call.state, tx.now))
        return
    waits = isinstance(before.state, Open) and isinstance(call.state, Running)
    if isinstance(before.state, Settled) or waits:
        return
    publish_reply(tx, before, "reject")
    await put_call(tx, move_call(replace(before, input=call.input), call.state, tx.now))


async def ask_observed(tx: Tx, claim: Claim, call: Call, state: Open) -> Call:
    """Open an ask for an observed call, or answer it from a row: a person may have answered the same ask
    before a crash, and the agent asks again after it."""
    row = await claimed_session(tx, claim)
    found = await tx.one("call", call.id)
    before = decode_call(found) if found else call
    if isinstance(before.state, Settled):
        return before
    asking = replace(before, input=call.input)
    earlier = await _earlier_answer(tx, asking, state.ask_hash)
    if earlier is None:
        asking = move_call(asking, replace(state, fence=row.control.fence), tx.now)
    else:
        await put_call(tx, _mark_used(earlier), publish=False)
        asking = _answer_as_before(asking, earlier, Running(row.control.fence), state.ask_hash)
    await put_call(tx, asking)
    publish_ask(tx, asking)
    return asking


async def take_answer(tx: Tx, claim: Claim, call_id: CallId) -> Call:
    """Read an observed call, and mark its answer as used: its agent is given it after the commit.

    An answer that was given answers no other ask, after a crash or in a later step.
    """
    await check_claim(tx, claim)
    call = await require_call(tx, call_id)
    if call.reply is None or call.ask_id is None or call.ask_id in call.asked_before:
        return call
    call = _mark_used(call)
    await put_call(tx, call, publish=False)
    return call


async def _earlier_answer(tx: Tx, call: Call, ask_hash: str) -> Call | None:
    """Find a call of an interrupted step in this turn whose answered ask is the same and not used yet."""
    for row in await tx.all("asked_calls", call.session_id):
        each = decode_call(row)
        same = ask_hash in each.granted or (
            isinstance(each.reply, Reject) and (each.tool, each.input) == (call.tool, call.input)
        )
        interrupted = each.turn == call.turn and each.message_id != call.message_id
        if each.observed and interrupted and same and each.ask_id not in each.asked_before:
            return each
    return None


def _mark_used(earlier: Call) -> Call:
    """Mark an answered ask as used: it answers one ask only."""
    assert earlier.ask_id is not None, "only calls that asked have an answer"
    return replace(earlier, asked_before=(*earlier.asked_before, earlier.ask_id))


def _answer_as_before(call: Call, earlier: Call, running: Running, ask_hash: str) -> Call:
    answered = replace(call, reply=earlier.reply, answered_by=earlier.answered_by)
    if isinstance(earlier.reply, Reject):
        return answered.with_state(earlier.state)
    return replace(answered.with_state(running), granted=(*call.granted, ask_hash))


async def end_observed_calls(tx: Tx, info: Session, message_id: MessageId, why: str) -> None:
    """Settle the observed calls of a step that its agent left without a result."""
    for call in await unsettled_calls(tx, info.id):
        if call.observed and call.message_id == message_id:
            await dismiss(tx, info, call, why)
