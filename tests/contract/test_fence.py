"""Every write of a run holds its lease, or changes nothing."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from asyncagents.domain.call.call import Call, Running
from asyncagents.domain.session_state import Claim
from asyncagents.domain.step import CallMove
from asyncagents.errors import ClaimLost
from tests.support.store.lab import ALICE, BOB, Lab, Step, completed_result

Write: TypeAlias = Callable[[Lab, Claim, Step, Call], Awaitable[object]]

WRITES: dict[str, Write] = {
    "snapshot": lambda lab, claim, step, call: lab.store.snapshot(claim),
    "release": lambda lab, claim, step, call: lab.store.release(claim),
    "start_step": lambda lab, claim, step, call: lab.store.start_step(claim, lab.new_step()),
    "write_parts": lambda lab, claim, step, call: lab.write(claim, lab.text(step, "late")),
    "finish_step": lambda lab, claim, step, call: lab.end(claim, step),
    "advance": lambda lab, claim, step, call: lab.store.advance(
        claim, (CallMove(call.id, Running(claim.fence)),)
    ),
    "finish_call": lambda lab, claim, step, call: lab.store.finish_call(
        claim, call.id, completed_result(), (lab.input(call.session_id),)
    ),
    "park": lambda lab, claim, step, call: lab.store.park(claim, 1_000),
    "rest": lambda lab, claim, step, call: lab.store.rest(
        claim, 1_000, "done", (lab.input(call.session_id),)
    ),
}


async def _at_work(lab: Lab) -> tuple[Claim, Step, Call]:
    """A run with a call that has not started and a second step under way."""
    session_id, _, claim = await lab.claim_prompted()
    first = await lab.step(claim)
    call = lab.call(first)
    await lab.end(claim, first, call)
    await lab.prompt(session_id)
    return claim, await lab.step(claim), call


@pytest.mark.spec("X-11")
@pytest.mark.parametrize("name", WRITES)
async def test_a_write_after_another_claim_changes_nothing(lab: Lab, name: str) -> None:
    claim, step, call = await _at_work(lab)
    await lab.claim(claim.session_id, BOB, dead=ALICE)
    before, cursor = await lab.read_everything(), await lab.store.cursor()
    lab.commits.clear()
    with pytest.raises(ClaimLost):
        await WRITES[name](lab, claim, step, call)
    assert await lab.read_everything() == before
    assert await lab.store.cursor() == cursor
    assert lab.events == []
    assert lab.woken == []


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_after_the_run_has_ended_changes_nothing(lab: Lab, name: str) -> None:
    claim, step, call = await _at_work(lab)
    snapshot = await lab.end(claim, step)
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    before = await lab.read_everything()
    with pytest.raises(ClaimLost):
        await WRITES[name](lab, claim, step, call)
    assert await lab.read_everything() == before


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_to_a_deleted_session_changes_nothing(lab: Lab, name: str) -> None:
    claim, step, call = await _at_work(lab)
    await lab.store.delete_session(claim.session_id)
    with pytest.raises(ClaimLost):
        await WRITES[name](lab, claim, step, call)
    assert await lab.read_everything() == {"statuses": {}, "due": None}


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_with_a_fence_of_the_future_is_refused(lab: Lab, name: str) -> None:
    claim, step, call = await _at_work(lab)
    with pytest.raises(ClaimLost):
        await WRITES[name](lab, Claim(claim.session_id, claim.fence + 1), step, call)
