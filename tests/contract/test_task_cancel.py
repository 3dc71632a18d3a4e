"""Tasks that are ended from outside, by time or by crashes; and places to work, given in order."""

import msgspec
import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.conversation.codec import SHAPE_VERSION
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import (
    TaskCancelled,
    TaskCleared,
)
from asyncagents.domain.fact import CancelTasks, ClearTasks, Resume
from asyncagents.errors import NotFound
from asyncagents.store.verb.feed import read_changes, revision
from tests.support.store.lab import ALICE, BOB, Lab, result_of
from tests.support.store.task import Parent, open_notices, open_parent, rewrite_task, work_child


@pytest.mark.spec("D-06")
async def test_nothing_is_launched_after_a_cancel(lab: Lab) -> None:
    boss = await open_parent(lab)
    (call,) = boss.calls
    await lab.store.cancel(boss.id)
    await boss.launch(call)
    assert await lab.store.tasks() == ()
    assert await lab.store.children(boss.id) == ()
    assert isinstance(result_of(await lab.store.call(call.id)), Failed)


@pytest.mark.spec("D-06", "T-15")
async def test_a_cancel_of_the_parent_ends_its_tasks_with_quiet_notices(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    back = await boss.launch(boss.calls[0])
    front = await boss.launch(boss.calls[1], background=False)
    before = len(lab.commits)
    assert set(await lab.store.cancel(boss.id)) == {boss.id, back, front}
    (commit,) = lab.commits[before:]
    assert len([e for e in commit.events if isinstance(e, TaskCancelled)]) == 2
    assert await open_notices(lab, boss.id) == [(back, 0, "quiet")]
    control = await lab.store.control(boss.id)
    assert await lab.store.rest(boss.lease, control.wake_seq, "aborted")
    assert await lab.store.status(boss.id) == Idle()
    await lab.prompt(boss.id, "next")
    await lab.step(await lab.claim(boss.id))
    assert await open_notices(lab, boss.id) == []


@pytest.mark.spec("D-06")
async def test_a_cancel_of_the_turn_spares_the_background(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    back = await boss.launch(boss.calls[0])
    front = await boss.launch(boss.calls[1], background=False)
    await lab.store.cancel(boss.id, scope="turn")
    assert (await lab.store.task(back)).task.status == "running"
    assert (await lab.store.task(front)).task.status == "cancelled"


@pytest.mark.spec("T-05", "T-15")
async def test_a_task_cancelled_by_its_parent_leaves_no_notice(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    child = await boss.launch(boss.calls[0])
    fact = CancelTasks((child,), "parent")
    await lab.store.finish_call(boss.lease, boss.calls[1].id, Completed("cancelled"), (fact,))
    task = (await lab.store.task(child)).task
    assert task.status == "cancelled"
    assert task.ended_by == "parent"
    assert await open_notices(lab, boss.id) == []


@pytest.mark.spec("T-05", "T-14")
async def test_cleared_tasks_are_gone_and_their_sessions_are_not(lab: Lab) -> None:
    boss = await open_parent(lab, 3)
    ended, live = await boss.launch(boss.calls[0]), await boss.launch(boss.calls[1])
    await work_child(lab, ended)
    cursor = await lab.store.cursor()
    fact = ClearTasks(boss.id)
    await lab.store.finish_call(boss.lease, boss.calls[2].id, Completed("cleared"), (fact,))
    assert await lab.store.tasks() == ()
    assert await open_notices(lab, boss.id) == []
    assert {info.id for info in await lab.store.children(boss.id)} == {ended, live}
    told = [e.session_id for e in (await lab.store.feed(cursor)).events if isinstance(e, TaskCleared)]
    assert set(told) == {ended, live}
    with pytest.raises(NotFound):
        await lab.store.task(ended)


@pytest.mark.spec("D-06", "T-15")
async def test_the_deletion_of_a_child_leaves_a_notice_and_keeps_the_task(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    await lab.store.delete_session(child)
    task = (await lab.store.task(child)).task
    assert task.status == "cancelled"
    assert task.ended_by == "user"
    assert await open_notices(lab, boss.id) == [(child, 0, "due")]


@pytest.mark.spec("D-06", "T-14")
async def test_the_deletion_of_a_parent_deletes_its_tasks_and_notices(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    for call in boss.calls:
        await work_child(lab, await boss.launch(call))
    await lab.store.delete_session(boss.id)
    assert await lab.store.tasks() == ()
    assert await open_notices(lab, boss.id) == []


@pytest.mark.spec("T-03")
async def test_a_deadline_ends_a_task_by_the_stores_clock(lab: Lab) -> None:
    boss = await open_parent(lab)
    due = lab.clock.now() + 1_000
    child = await boss.launch(boss.calls[0], longest=1_000, due=due)
    assert await boss.rest()
    assert await lab.store.next_due() == due
    lab.clock.advance(1_000)
    await lab.store.expire()
    task = (await lab.store.task(child)).task
    assert task.status == "cancelled"
    assert task.ended_by == "deadline"
    assert await open_notices(lab, boss.id) == [(child, 0, "due")]
    assert await lab.store.next_due() is None
    await lab.store.resume(Resume(child, lab.input(child, "more"), "more"))
    assert await lab.store.next_due() == lab.clock.now() + 1_000


@pytest.mark.spec("D-10", "X-07")
async def test_other_processes_read_the_deadline_of_a_resumed_task(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0], longest=1_000)
    await work_child(lab, child)
    seen = await lab.database.read(revision)
    await lab.store.resume(Resume(child, lab.input(child, "more"), "more"))
    upto = await lab.database.read(revision)
    found = await lab.database.read(lambda tx: read_changes(tx, seen, upto))
    assert found.due == [lab.clock.now() + 1_000]


@pytest.mark.spec("T-09")
async def test_a_sweep_finds_an_end_that_was_missed(lab: Lab) -> None:
    """As if a process had ended its child's turn without a word."""
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    await work_child(lab, child)
    done = (await lab.store.task(child)).task
    missed = replace(done, status="running", ended=None, result=None, account=None)
    await rewrite_task(lab, missed, msgspec.json.encode(missed), SHAPE_VERSION)
    await lab.database.write(lambda tx: tx.run("delete_task_notices", child))
    assert await lab.store.unconcluded_tasks() == (child,)
    await lab.store.conclude_task(child)
    task = (await lab.store.task(child)).task
    assert task.status == "completed"
    assert task.result == "Red."
    assert await open_notices(lab, boss.id) == [(child, 0, "due")]
    await lab.store.conclude_task(child)
    assert await lab.store.unconcluded_tasks() == ()
    assert await open_notices(lab, boss.id) == [(child, 0, "due")]


@pytest.mark.spec("D-10")
async def test_places_are_given_in_order_and_freed_by_sessions_that_park(lab: Lab) -> None:
    boss = await open_parent(lab, 3)
    one, two, three = [await boss.launch(call, crowd=1) for call in boss.calls]
    claim = await lab.claim(one)
    for late, place in ((two, 1), (three, 2)):
        assert await lab.store.claim(late, ALICE, dead=None) is None
        progress = (await lab.store.task(late)).progress
        assert progress is not None
        assert progress.phase == "queued"
        assert progress.place == place
    step = await lab.step(claim)
    call = lab.call(step)
    await lab.end(claim, step, call)
    await lab.move(claim, call, lab.open_state())
    before = len(lab.commits)
    assert await lab.store.park(claim, (await lab.store.control(one)).wake_seq)
    assert two in lab.commits[before].woken
    assert await lab.store.claim(three, ALICE, dead=None) is None
    await lab.claim(two)
    await lab.store.settle(call.id, Completed("7"))
    assert await lab.store.claim(one, ALICE, dead=None) is None


@pytest.mark.spec("D-10")
async def test_a_cancelled_session_can_be_claimed_without_a_place(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    one, two = [await boss.launch(call, crowd=1) for call in boss.calls]
    await lab.claim(one)
    await lab.store.cancel(two)
    assert await lab.store.claim(two, BOB, dead=None) is not None


@pytest.mark.spec("T-03")
async def test_a_child_in_a_crash_loop_ends_with_an_error(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    claim = await lab.claim(child)
    await lab.step(claim)
    control = await lab.store.control(child)
    assert await lab.store.rest(claim, control.wake_seq, "crash_loop")
    task = (await lab.store.task(child)).task
    assert task.status == "error"
    assert task.ended_by == "crash"
    assert task.error is not None
    assert task.error.message.startswith("crash_loop:")
    assert await open_notices(lab, boss.id) == [(child, 0, "due")]


@pytest.mark.spec("T-03")
async def test_a_child_that_a_person_rejects_ends_with_an_error_by_the_user(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    claim = await lab.claim(child)
    step = await lab.step(claim)
    await lab.end(claim, step)
    control = await lab.store.control(child)
    assert await lab.store.rest(claim, control.wake_seq, "blocked")
    task = (await lab.store.task(child)).task
    assert task.status == "error"
    assert task.ended_by == "user"


@pytest.mark.spec("D-10", "D-06")
async def test_deleting_working_sessions_frees_as_many_places(lab: Lab) -> None:
    boss = await open_parent(lab, 4)
    first, *queued = [await boss.launch(call, crowd=2) for call in boss.calls]
    claim = await lab.claim(first)
    step = await lab.step(claim)
    call = lab.call(step, tool="task")
    await lab.end(claim, step, call)
    middle = Parent(lab, claim, step, [await lab.start(claim, call)])
    await lab.claim(queued.pop(0))
    await middle.launch(middle.calls[0], crowd=2)
    before = len(lab.commits)
    await lab.store.delete_session(first)
    assert lab.commits[before].woken.count(queued[0]) == 1
    await lab.claim(queued[0])
    assert await lab.store.claim(queued[1], ALICE, dead=None) is None


@pytest.mark.spec("D-10")
async def test_deleted_and_cleared_tasks_count_towards_the_launch_limit(lab: Lab) -> None:
    """Found by a soak: deleting children made room for more than a session may launch."""
    boss = await open_parent(lab, 5)
    gone, _ = [await boss.launch(call) for call in boss.calls[:2]]
    await lab.store.delete_session(gone)
    await boss.launch(boss.calls[2], most=2)
    await lab.store.finish_call(boss.lease, boss.calls[3].id, Completed(""), (ClearTasks(boss.id),))
    await boss.launch(boss.calls[4], most=1)
    for call, most in ((boss.calls[2], 2), (boss.calls[4], 1)):
        result = result_of(await lab.store.call(call.id))
        assert isinstance(result, Failed)
        assert f"may launch at most {most}" in result.error
