"""A child whose task was cleared works within the limit of its tree, as those that are tasks."""

import pytest

from asyncagents.domain.call.call import Completed
from asyncagents.domain.fact import ClearTasks
from asyncagents.domain.id import SessionId
from asyncagents.domain.why import explain_session
from tests.support.store.lab import ALICE, BOB, Lab
from tests.support.store.task import Parent, open_parent, work_child


async def _clear(boss: Parent, number: int) -> None:
    lab, call = boss.lab, boss.calls[number]
    await lab.store.finish_call(boss.lease, call.id, Completed("cleared"), (ClearTasks(boss.id),))


async def _cleared(boss: Parent, crowd: int) -> SessionId:
    """A child that worked once, with the first call; with the second its task was cleared."""
    child = await boss.launch(boss.calls[0], crowd=crowd)
    await work_child(boss.lab, child)
    await _clear(boss, 1)
    return child


async def _waits(lab: Lab, session_id: SessionId) -> bool:
    return await lab.store.claim(session_id, ALICE, dead=None) is None


@pytest.mark.spec("D-10")
async def test_a_prompted_cleared_child_queues_and_gets_a_place(lab: Lab) -> None:
    boss = await open_parent(lab, 3)
    cleared = await _cleared(boss, crowd=1)
    other = await boss.launch(boss.calls[2], crowd=1)
    claim = await lab.claim(other)
    await lab.prompt(cleared, "one more thing")
    assert await _waits(lab, cleared)
    told = explain_session(await lab.store.situation(cleared))
    assert told.code == "queued"
    assert told.sentence == "It queues at place 1: 1 sessions of its tree may work at once."
    step = await lab.step(claim)
    await lab.end(claim, step)
    before = len(lab.commits)
    assert await lab.store.rest(claim, (await lab.store.control(other)).wake_seq, "done")
    assert cleared in lab.commits[before].woken
    await lab.claim(cleared)


@pytest.mark.spec("D-10")
async def test_a_cleared_child_at_work_holds_a_place_and_gives_it_to_the_next(lab: Lab) -> None:
    boss = await open_parent(lab, 3)
    cleared = await _cleared(boss, crowd=1)
    await lab.prompt(cleared, "one more thing")
    claim = await lab.claim(cleared)
    other = await boss.launch(boss.calls[2], crowd=1)
    assert await _waits(lab, other)
    await lab.end(claim, await lab.step(claim))
    before = len(lab.commits)
    assert await lab.store.rest(claim, (await lab.store.control(cleared)).wake_seq, "done")
    assert other in lab.commits[before].woken
    await lab.claim(other)


@pytest.mark.spec("D-10")
async def test_a_cleared_child_that_rests_wakes_the_session_that_waits_for_a_place(lab: Lab) -> None:
    """Three may work. With two at work the third may go anyway; the fourth goes when one has stopped."""
    boss = await open_parent(lab, 5)
    cleared = await _cleared(boss, crowd=3)
    await lab.prompt(cleared, "one more thing")
    claim = await lab.claim(cleared)
    others = [await boss.launch(call, crowd=3) for call in boss.calls[2:]]
    await lab.claim(others[0])
    assert await _waits(lab, others[2])
    await lab.end(claim, await lab.step(claim))
    before = len(lab.commits)
    assert await lab.store.rest(claim, (await lab.store.control(cleared)).wake_seq, "done")
    assert others[2] in lab.commits[before].woken


@pytest.mark.spec("D-10", "X-07")
async def test_a_cleared_child_keeps_its_place_when_its_process_dies(lab: Lab) -> None:
    boss = await open_parent(lab, 3)
    cleared = await _cleared(boss, crowd=1)
    await lab.prompt(cleared, "one more thing")
    await lab.claim(cleared)
    other = await boss.launch(boss.calls[2], crowd=1)
    await lab.claim(cleared, BOB, dead=ALICE)
    assert await _waits(lab, other)


@pytest.mark.spec("D-10")
async def test_a_child_that_a_client_made_takes_a_place_and_waits_for_none(lab: Lab) -> None:
    """Whoever made it may hold a place while it waits for it."""
    boss = await open_parent(lab, 2)
    first = await boss.launch(boss.calls[0], crowd=2)
    await lab.claim(first)
    made = await lab.session(parent=boss.id)
    await lab.prompt(made)
    claim = await lab.claim(made)
    second = await boss.launch(boss.calls[1], crowd=2)
    assert await _waits(lab, second)
    await lab.end(claim, await lab.step(claim))
    before = len(lab.commits)
    assert await lab.store.rest(claim, (await lab.store.control(made)).wake_seq, "done")
    assert second in lab.commits[before].woken


@pytest.mark.spec("D-10")
async def test_a_client_s_child_that_rests_wakes_the_session_that_waits_for_a_place(lab: Lab) -> None:
    boss = await open_parent(lab, 3)
    made = await lab.session(parent=boss.id)
    await lab.prompt(made)
    claim = await lab.claim(made)
    launched = [await boss.launch(call, crowd=3) for call in boss.calls]
    await lab.claim(launched[0])
    assert await _waits(lab, launched[2])
    await lab.end(claim, await lab.step(claim))
    before = len(lab.commits)
    assert await lab.store.rest(claim, (await lab.store.control(made)).wake_seq, "done")
    assert launched[2] in lab.commits[before].woken


@pytest.mark.spec("D-10", "P-13")
async def test_the_limit_of_a_cleared_child_is_exported(lab: Lab) -> None:
    cleared = await _cleared(await open_parent(lab, 2), crowd=7)
    assert (await lab.store.transfer.session(cleared)).mark.crowd == 7
