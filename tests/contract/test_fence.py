"""Every write of a run holds its lease, or changes nothing."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from asyncagents.domain.call.call import Call, Running
from asyncagents.domain.session_state import Claim
from asyncagents.domain.step import CallMove
from asyncagents.errors import LeaseLost
from tests.contract.build import ALICE, BOB, Lab, Step, done

Write: TypeAlias = Callable[[Lab, Claim, Step, Call], Awaitable[object]]

WRITES: dict[str, Write] = {
    "snapshot": lambda lab, lease, step, call: lab.store.snapshot(lease),
    "release": lambda lab, lease, step, call: lab.store.release(lease),
    "start_step": lambda lab, lease, step, call: lab.store.start_step(lease, lab.new_step()),
    "write_parts": lambda lab, lease, step, call: lab.write(lease, lab.text(step, "late")),
    "finish_step": lambda lab, lease, step, call: lab.end(lease, step),
    "advance": lambda lab, lease, step, call: lab.store.advance(
        lease, (CallMove(call.id, Running(lease.fence)),)
    ),
    "finish_call": lambda lab, lease, step, call: lab.store.finish_call(
        lease, call.id, done(), (lab.input(call.session_id),)
    ),
    "park": lambda lab, lease, step, call: lab.store.park(lease, 1_000),
    "rest": lambda lab, lease, step, call: lab.store.rest(
        lease, 1_000, "done", (lab.input(call.session_id),)
    ),
}


async def _at_work(lab: Lab) -> tuple[Claim, Step, Call]:
    """A run with a call that has not started and a second step under way."""
    session_id, _, lease = await lab.prompted()
    first = await lab.step(lease)
    call = lab.call(first)
    await lab.end(lease, first, call)
    await lab.prompt(session_id)
    return lease, await lab.step(lease), call


@pytest.mark.spec("X-11")
@pytest.mark.parametrize("name", WRITES)
async def test_a_write_after_another_claim_changes_nothing(lab: Lab, name: str) -> None:
    lease, step, call = await _at_work(lab)
    await lab.claim(lease.session_id, BOB, dead=ALICE)
    before, cursor = await lab.everything(), await lab.store.cursor()
    lab.commits.clear()
    with pytest.raises(LeaseLost):
        await WRITES[name](lab, lease, step, call)
    assert await lab.everything() == before
    assert await lab.store.cursor() == cursor
    assert (lab.events, lab.woken) == ([], [])


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_after_the_run_has_ended_changes_nothing(lab: Lab, name: str) -> None:
    lease, step, call = await _at_work(lab)
    snapshot = await lab.end(lease, step)
    assert await lab.store.park(lease, snapshot.control.wake_seq)
    before = await lab.everything()
    with pytest.raises(LeaseLost):
        await WRITES[name](lab, lease, step, call)
    assert await lab.everything() == before


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_to_a_deleted_session_changes_nothing(lab: Lab, name: str) -> None:
    lease, step, call = await _at_work(lab)
    await lab.store.delete_session(lease.session_id)
    with pytest.raises(LeaseLost):
        await WRITES[name](lab, lease, step, call)
    assert await lab.everything() == {"statuses": {}, "due": None}


@pytest.mark.parametrize("name", WRITES)
async def test_a_lease_of_the_future_is_no_lease(lab: Lab, name: str) -> None:
    lease, step, call = await _at_work(lab)
    with pytest.raises(LeaseLost):
        await WRITES[name](lab, Claim(lease.session_id, lease.fence + 1), step, call)
