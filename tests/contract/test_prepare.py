"""What hooks make of a call is noted once, and nobody's yes is taken for it."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import Once, Requested, Running, render
from asyncagents.domain.step import PreparedInput
from asyncagents.errors import ClaimLost
from tests.support.store.lab import ALICE, BOB, Lab, ask_id


@pytest.mark.spec("A-06")
async def test_arguments_changed_by_hooks_are_stored_beside_those_of_the_model(lab: Lab) -> None:
    _, claim, (call,) = await lab.start_calls(None)
    snapshot = await lab.store.prepare(claim, (PreparedInput(call.id, {"x": 1}),))
    (prepared,) = snapshot.requested_calls
    assert prepared == replace(call, input={"x": 1}, proposed=call.input, prepared=True)
    assert prepared.repeat_key == call.repeat_key
    assert render(prepared) in (await lab.store.message(call.message_id)).parts


async def test_a_call_is_prepared_once(lab: Lab) -> None:
    _, claim, (call,) = await lab.start_calls(None)
    await lab.store.prepare(claim, (PreparedInput(call.id, call.input),))
    snapshot = await lab.store.prepare(claim, (PreparedInput(call.id, {"late": True}),))
    assert snapshot.requested_calls == (replace(call, prepared=True),)


async def test_a_grant_is_dropped_when_hooks_change_the_arguments(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    asked = await lab.move(claim, call, lab.ask(session_id))
    granted = await lab.store.answer(ask_id(asked), Once())
    assert granted.granted
    (prepared,) = (await lab.store.prepare(claim, (PreparedInput(call.id, {"x": 1}),))).requested_calls
    assert prepared.granted == ()
    assert prepared.input == {"x": 1}


async def test_a_call_that_runs_is_not_changed_any_more(lab: Lab) -> None:
    _, claim, (call,) = await lab.start_calls(None)
    started = await lab.move(claim, call, Running(claim.fence))
    snapshot = await lab.store.prepare(claim, (PreparedInput(call.id, {"x": 1}),))
    assert snapshot.executing_calls == (started,)
    assert not isinstance(started.state, Requested)


async def test_a_run_that_lost_its_claim_prepares_no_call(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    mine = await lab.claim(session_id, BOB, dead=ALICE)
    with pytest.raises(ClaimLost):
        await lab.store.prepare(claim, (PreparedInput(call.id, {"x": 1}),))
    assert (await lab.store.snapshot(mine)).requested_calls == (call,)
