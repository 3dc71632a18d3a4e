"""Tasks in the store: launched and ended in one transaction each, told once, queued in order, found again."""

import pytest

from asyncagents.domain.call.call import Completed, Failed
from asyncagents.domain.conversation.failure import api_error
from asyncagents.domain.conversation.status import Busy, Idle
from asyncagents.domain.event import (
    TaskCompleted,
    TaskCreated,
    TaskUpdated,
)
from asyncagents.domain.fact import Resume, Retrieve
from asyncagents.errors import Conflict
from tests.support.store.lab import Lab, result_of, state_of
from tests.support.store.task import Parent, open_notices, open_parent, work_child


@pytest.mark.spec("T-01", "T-17")
async def test_a_launch_is_a_session_its_input_and_its_task_in_one_commit(lab: Lab) -> None:
    boss = await open_parent(lab)
    before = len(lab.commits)
    child = await boss.launch(boss.calls[0])
    (commit,) = lab.commits[before:]
    task = (await lab.store.task(child)).task
    assert [type(event).__name__ for event in commit.events if isinstance(event, TaskCreated)] == [
        "TaskCreated"
    ]
    assert child in commit.woken
    assert task.id == child
    assert task.parent_id == boss.id
    assert task.status == "running"
    assert task.run == 0
    assert (await lab.store.session(child)).parent_id == boss.id
    assert [entry.text for entry in await lab.store.messages(child)] == ["look"]
    assert state_of(await lab.store.call(boss.calls[0].id)) == "Settled"


@pytest.mark.spec("T-01")
async def test_a_launch_by_a_settled_call_creates_no_task(lab: Lab) -> None:
    boss = await open_parent(lab)
    (call,) = boss.calls
    await lab.store.settle(call.id, Completed("from outside"))
    await lab.store.finish_call(boss.lease, call.id, Completed("launched"), (boss.spawn(call),))
    assert await lab.store.tasks() == ()
    assert await lab.store.children(boss.id) == ()


@pytest.mark.spec("D-10")
@pytest.mark.parametrize("limit", [{"deepest": 0}, {"most": 0}])
@pytest.mark.parametrize("background", [True, False])
async def test_a_launch_over_a_limit_settles_its_call_with_the_reason(
    lab: Lab, limit: dict[str, int], background: bool
) -> None:
    boss = await open_parent(lab)
    (call,) = boss.calls
    await boss.launch(call, background=background, **limit)
    result = result_of(await lab.store.call(call.id))
    assert isinstance(result, Failed)
    assert result.error.startswith("No task was created: ")
    assert await lab.store.tasks() == ()
    assert await lab.store.children(boss.id) == ()


@pytest.mark.spec("T-09", "T-15", "T-03")
async def test_an_end_commits_the_task_state_the_notice_and_the_wake_together(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    assert await boss.rest()
    lab.clock.advance(65_000)
    await work_child(lab, child)
    (commit,) = [c for c in lab.commits if any(isinstance(e, TaskCompleted) for e in c.events)]
    task = (await lab.store.task(child)).task
    assert boss.id in commit.woken
    assert task.status == "completed"
    assert task.result == "Red."
    assert task.ended == lab.clock.now()
    assert task.account is not None
    assert task.account.ms == 65_000
    assert task.account.finish == "stop"
    assert task.account.tokens.output == 20
    assert await open_notices(lab, boss.id) == [(child, 0, "due")]


@pytest.mark.spec("T-12", "T-15")
async def test_notices_are_given_together_by_the_next_step_and_only_once(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    children = [
        await boss.launch(call, description=name) for call, name in zip(boss.calls, "AB", strict=True)
    ]
    assert await boss.rest()
    for child in reversed(children):
        await work_child(lab, child)
    claim = await lab.claim(boss.id)
    step = await lab.step(claim)
    told = [entry for entry in await lab.store.messages(boss.id) if "Task Progress" in entry.text]
    assert len(told) == 1
    assert [part.text.split('"')[1] for part in told[0].parts[:2]] == ["B", "A"]  # type: ignore[union-attr]
    assert await open_notices(lab, boss.id) == []
    await lab.end(claim, step)
    control = await lab.store.control(boss.id)
    assert await lab.store.rest(claim, control.wake_seq, "done")
    assert await lab.store.status(boss.id) == Idle()


@pytest.mark.spec("D-01", "T-15")
async def test_the_end_of_a_sync_task_settles_its_call_and_is_no_notice(lab: Lab) -> None:
    boss = await open_parent(lab)
    (call,) = boss.calls
    child = await boss.launch(call, background=False)
    control = await lab.store.control(boss.id)
    assert await lab.store.park(boss.lease, control.wake_seq)
    assert await lab.store.status(boss.id) == Busy()
    await work_child(lab, child)
    result = result_of(await lab.store.call(call.id))
    assert isinstance(result, Completed)
    assert "Red." in result.output
    assert await open_notices(lab, boss.id) == []
    assert (await lab.store.control(boss.id)).state == "ready"


@pytest.mark.spec("D-01")
async def test_a_failed_child_is_a_failed_call(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0], background=False)
    await work_child(lab, child, error=api_error("it burns", is_retryable=False, status_code=None))
    result = result_of(await lab.store.call(boss.calls[0].id))
    assert isinstance(result, Failed)
    assert "it burns" in result.error
    assert not result.blocks


@pytest.mark.spec("T-15", "T-04")
@pytest.mark.parametrize("any", [False, True])
async def test_a_wait_returns_the_result_of_its_task_and_consumes_its_notice(lab: Lab, any: bool) -> None:
    boss = await open_parent(lab, 2)
    first, second = boss.calls
    child = await boss.launch(first)
    await boss.watch(second, child, any=any)
    await work_child(lab, child)
    result = result_of(await lab.store.call(second.id))
    assert isinstance(result, Completed)
    assert "Red." in result.output
    assert await open_notices(lab, boss.id) == []
    assert (await lab.store.task(child)).task.retrieved is not None


@pytest.mark.spec("T-04", "T-15")
async def test_a_wait_for_any_task_ends_with_a_sibling_and_leaves_its_notice_due(lab: Lab) -> None:
    boss = await open_parent(lab, 3)
    one, other, wait = boss.calls
    child, sibling = await boss.launch(one), await boss.launch(other)
    await boss.watch(wait, child, any=True)
    await work_child(lab, sibling)
    result = result_of(await lab.store.call(wait.id))
    assert isinstance(result, Completed)
    assert "It is still at work." in result.output
    assert await open_notices(lab, boss.id) == [(sibling, 0, "due")]


@pytest.mark.spec("T-04", "T-15")
async def test_a_wait_that_begins_after_the_end_is_over_at_once(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    child = await boss.launch(boss.calls[0])
    await work_child(lab, child)
    await boss.watch(boss.calls[1], child)
    assert state_of(await lab.store.call(boss.calls[1].id)) == "Settled"
    assert await open_notices(lab, boss.id) == []


@pytest.mark.spec("T-04")
async def test_a_wait_for_a_task_takes_no_result_from_outside(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    child = await boss.launch(boss.calls[0], background=False)
    await boss.watch(boss.calls[1], child)
    for call in boss.calls:
        with pytest.raises(Conflict, match="cancel the task instead"):
            await lab.store.settle(call.id, Completed("forged"))


@pytest.mark.spec("T-15")
async def test_a_result_that_was_read_needs_no_notice_and_one_of_a_later_run_does(lab: Lab) -> None:
    boss = await open_parent(lab, 3)
    launch, early, late = boss.calls
    child = await boss.launch(launch)
    await work_child(lab, child)
    await lab.store.resume(Resume(child, lab.input(child, "more"), "more"))
    await work_child(lab, child, "Dark red.")
    await lab.store.finish_call(boss.lease, early.id, Completed("old"), (Retrieve(child, 0),))
    assert await open_notices(lab, boss.id) == [(child, 1, "due")]
    assert (await lab.store.task(child)).task.retrieved is None
    await lab.store.finish_call(boss.lease, late.id, Completed("read"), (Retrieve(child, 1),))
    assert await open_notices(lab, boss.id) == []
    assert (await lab.store.task(child)).task.retrieved is not None


@pytest.mark.spec("T-08", "T-15")
async def test_each_run_ends_once_and_has_a_notice_of_its_own(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    assert await boss.rest()
    await work_child(lab, child)
    follow = Resume(child, lab.input(child, "more", key="k"), "more")
    for _ in range(2):
        await lab.store.resume(follow)
    resumed = (await lab.store.task(child)).task
    assert resumed.status == "resumed"
    assert resumed.run == 1
    assert resumed.resumes == 1
    assert resumed.ended is None
    assert resumed.follow is not None
    await work_child(lab, child, "Dark red.")
    done = (await lab.store.task(child)).task
    assert done.status == "completed"
    assert done.result == "Dark red."
    assert done.follow is None
    assert await open_notices(lab, boss.id) == [(child, 0, "due"), (child, 1, "due")]


@pytest.mark.spec("T-09")
async def test_a_child_with_live_tasks_of_its_own_has_not_ended(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    claim = await lab.claim(child)
    step = await lab.step(claim)
    call = lab.call(step, tool="task")
    await lab.end(claim, step, call)
    call = await lab.start(claim, call)
    middle = Parent(lab, claim, step, [call])
    grandchild = await middle.launch(call)
    assert await middle.rest()
    assert (await lab.store.task(child)).task.live
    assert await lab.store.unconcluded_tasks() == ()
    await work_child(lab, grandchild, "Deep.")
    assert await open_notices(lab, child) == [(grandchild, 0, "due")]
    assert (await lab.store.task(child)).task.live
    await work_child(lab, child, "All of it.")
    assert (await lab.store.task(child)).task.result == "All of it."


@pytest.mark.spec("T-09")
async def test_a_sync_task_moves_to_the_background_once(lab: Lab) -> None:
    boss = await open_parent(lab)
    (call,) = boss.calls
    child = await boss.launch(call, background=False)
    first, second = (
        await lab.store.actions.move_to_background(child),
        await lab.store.actions.move_to_background(child),
    )
    assert first == second
    assert first.background is True
    assert first.calls == ()
    assert isinstance(result_of(await lab.store.call(call.id)), Completed)
    await work_child(lab, child)
    assert await open_notices(lab, boss.id) == [(child, 0, "due")]
    with pytest.raises(Conflict, match="has ended"):
        await lab.store.actions.move_to_background(child)


@pytest.mark.spec("T-16", "C-04")
async def test_the_feed_has_tasks_in_their_current_state(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    cursor = await lab.store.cursor()
    ended, live = [await boss.launch(call) for call in boss.calls]
    await work_child(lab, ended)
    events = (await lab.store.feed(cursor)).events
    assert [e.session_id for e in events if isinstance(e, TaskCompleted)] == [ended]
    assert [e.session_id for e in events if isinstance(e, TaskUpdated)] == [live]
    whole = (await lab.store.feed()).events
    assert [e.session_id for e in whole if isinstance(e, TaskCompleted)] == [ended]
