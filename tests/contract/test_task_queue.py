"""Places in the queue: whoever leaves it, by whatever way, lets the next one go, in whatever process."""

import pytest

from asyncagents.domain.id import SessionId
from asyncagents.store.verb.feed import read_changes, revision
from tests.support.store.lab import ALICE, Lab
from tests.support.store.task import Parent, open_middle, open_parent, work_child


async def _crowded(lab: Lab) -> tuple[Parent, SessionId, Parent, SessionId]:
    """One place: `below` has it, its parent `first` wants to go on, `last` waits behind that."""
    boss = await open_parent(lab, 2)
    first = await boss.launch(boss.calls[0], crowd=1)
    boss_below = await open_middle(lab, first)
    below = await boss_below.launch(boss_below.calls[0], crowd=1)
    assert await boss_below.rest()
    claim = await lab.claim(below)
    last = await boss.launch(boss.calls[1], crowd=1)
    await lab.prompt(first, "and?")
    for queued in (first, last):
        assert await lab.store.claim(queued, ALICE, dead=None) is None
    return boss, first, Parent(lab, claim, boss_below.step, []), last


@pytest.mark.spec("D-10", "D-06")
async def test_a_place_freed_by_a_deletion_goes_to_a_session_that_remains(lab: Lab) -> None:
    _, first, _, last = await _crowded(lab)
    before = len(lab.commits)
    await lab.store.delete_session(first)
    assert last in lab.commits[before].woken
    await lab.claim(last)


@pytest.mark.spec("D-10", "X-07")
async def test_a_process_that_stops_hands_the_queue_over_to_the_others(lab: Lab) -> None:
    _, first, below, last = await _crowded(lab)
    await lab.store.release(below.lease)
    before = await lab.database.read(revision)
    await lab.store.hand_over((below.id, last))
    upto = await lab.database.read(revision)
    assert (await lab.database.read(lambda tx: read_changes(tx, before, upto))).sessions == [first]
    await lab.claim(first)


@pytest.mark.spec("D-10", "D-06")
async def test_the_cancel_of_a_queued_session_wakes_the_next_one(lab: Lab) -> None:
    boss = await open_parent(lab, 3)
    first = await boss.launch(boss.calls[0], crowd=2)
    boss_below = await open_middle(lab, first)
    below = await boss_below.launch(boss_below.calls[0], crowd=2)
    assert await boss_below.rest()
    await work_child(lab, below)  # its end wakes `first`, which gets no further than the queue
    await lab.claim(await boss.launch(boss.calls[1], crowd=2))
    last = await boss.launch(boss.calls[2], crowd=2)
    assert await lab.store.claim(last, ALICE, dead=None) is None
    before = len(lab.commits)
    await lab.store.cancel(first)
    assert last in lab.commits[before].woken
    await lab.claim(last)
