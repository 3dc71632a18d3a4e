"""Ends of tasks at the edges: under a cancel, before they are told, and beside rows that nobody can read."""

import pytest

from asyncagents.domain.call.call import Completed, Failed, Open
from asyncagents.domain.conversation.failure import api_error
from asyncagents.domain.conversation.part import RetryPart, RetryTime
from asyncagents.domain.event import TaskCompleted, TaskUpdated
from asyncagents.domain.fact import Resume, Retrieve
from asyncagents.domain.session_state import Claim, RestReason
from asyncagents.domain.step import StepRetry
from tests.support.store.lab import Lab, result_of
from tests.support.store.row import rewrite_call, rewrite_session
from tests.support.store.task import open_middle, open_notices, open_parent, rewrite_task, work_child


async def _rest(lab: Lab, claim: Claim, reason: RestReason) -> bool:
    control = await lab.store.control(claim.session_id)
    return await lab.store.rest(claim, control.wake_seq, reason)


@pytest.mark.spec("D-06", "T-09")
async def test_a_task_cancelled_while_it_waits_for_its_own_task_ends_as_cancelled(lab: Lab) -> None:
    """The end came between the cancel and the rest, and the call that waited has consumed it."""
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    boss_below = await open_middle(lab, child, 2)
    below = await boss_below.launch(boss_below.calls[0])
    await boss_below.watch(boss_below.calls[1], below)
    await lab.store.cancel(child, scope="turn")
    assert (await lab.store.task(child)).task.live
    await work_child(lab, below)
    assert await _rest(lab, boss_below.lease, "aborted")
    task = (await lab.store.task(child)).task
    assert task.status == "cancelled"
    assert task.ended_by == "user"
    assert await open_notices(lab, boss.id) == [(child, 0, "due")]
    assert await lab.store.unconcluded_tasks() == ()


@pytest.mark.spec("T-08", "T-15")
async def test_a_wait_for_a_later_run_keeps_the_notice_of_an_earlier_run(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    child = await boss.launch(boss.calls[0])
    await work_child(lab, child, "Red.")
    await lab.store.resume(Resume(child, lab.input(child, "more"), "more"))
    await boss.watch(boss.calls[1], child)
    await work_child(lab, child, "Dark.")
    result = result_of(await lab.store.call(boss.calls[1].id))
    assert isinstance(result, Completed)
    assert "Red." not in result.output
    assert await open_notices(lab, boss.id) == [(child, 0, "due")]


@pytest.mark.spec("T-15")
@pytest.mark.parametrize("waits", [True, False])
async def test_an_end_is_published_once_with_or_without_a_waiting_call(lab: Lab, waits: bool) -> None:
    boss = await open_parent(lab, 2)
    launch, read = boss.calls
    child = await boss.launch(launch)
    if waits:
        await boss.watch(read, child)
    await work_child(lab, child)
    if not waits:
        await lab.store.finish_call(boss.lease, read.id, Completed("Red."), (Retrieve(child, 0),))
    told = [event for event in lab.events if isinstance(event, TaskCompleted | TaskUpdated)]
    assert [type(event) for event in told] == [TaskCompleted, TaskUpdated]
    assert told[-1].task.result_retrieved_at is not None


@pytest.mark.spec("T-15", "D-06")
async def test_a_cancelled_sync_task_leaves_a_quiet_notice_if_no_call_waits(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0], background=False)
    assert await _rest(lab, boss.lease, "crash_loop")
    assert (await lab.store.task(child)).task.live
    await lab.store.cancel(boss.id)
    assert await open_notices(lab, boss.id) == [(child, 0, "quiet")]


@pytest.mark.spec("T-09")
async def test_a_late_sweep_does_not_end_a_task_in_backoff(lab: Lab) -> None:
    """Its end was missed, somebody resumed it, and it waits for its provider when the sweep gets to it."""
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    claim = await lab.claim(child)
    step = await lab.step(claim)
    failure = api_error("busy", is_retryable=True)
    part = RetryPart(
        id=lab.ids.part(),
        session_id=child,
        message_id=step.id,
        attempt=1,
        error=failure,
        time=RetryTime(created=lab.clock.now()),
    )
    end = lab.step_end(step, error=failure)
    await lab.store.retry_step(claim, StepRetry(end=end, part=part, next_at=lab.clock.now() + 60_000))
    assert await lab.store.park(claim, (await lab.store.control(child)).wake_seq)
    await lab.store.conclude_task(child)
    assert (await lab.store.task(child)).task.live


@pytest.mark.parametrize("name", ["session", "call", "wait"])
async def test_a_child_ends_even_if_rows_of_its_parent_are_unreadable(lab: Lab, name: str) -> None:
    boss = await open_parent(lab, 2)
    child = await boss.launch(boss.calls[0], background=False)
    if name == "wait":
        await boss.watch(boss.calls[1], child)
    assert name == "wait" or await lab.store.park(boss.lease, 10**6)
    if name == "session":
        await rewrite_session(lab, boss.id, b'{"id": 7', 1)
    else:
        call = await lab.store.call(boss.calls[name == "wait"].id)
        await rewrite_call(lab, call, b'{"state":{"type":"levitating"}}', 1)
    await work_child(lab, child)
    task = (await lab.store.task(child)).task
    assert task.status == "completed"
    assert task.result == "Red."


async def test_calls_that_wait_for_an_unreadable_task_fail_when_it_rests(lab: Lab) -> None:
    boss = await open_parent(lab, 2)
    (front, watch) = boss.calls
    fact = boss.spawn(front, background=False)
    child = fact.info.id
    state = Open(kind="task", since=lab.clock.now(), metadata={"sessionId": child})
    await lab.store.open_call(boss.lease, front.id, state, (fact,))
    await boss.watch(watch, child)
    await rewrite_task(lab, fact.task, b"[]", 1)
    await work_child(lab, child)
    await lab.store.conclude_task(child)
    for call in boss.calls:
        result = result_of(await lab.store.call(call.id))
        assert isinstance(result, Failed)
        assert child in result.error


@pytest.mark.spec("D-06")
@pytest.mark.parametrize("name", ["session", "call"])
@pytest.mark.parametrize("how", ["abort", "deadline"])
async def test_an_unreadable_child_does_not_prevent_the_cancel_of_others(
    lab: Lab, name: str, how: str
) -> None:
    boss = await open_parent(lab)
    top = await boss.launch(boss.calls[0], due=lab.clock.now() + 1)
    boss_below = await open_middle(lab, top, 3)
    tasks = [await boss_below.launch(call) for call in boss_below.calls]
    bad = await open_middle(lab, tasks[1])
    if name == "session":
        await rewrite_session(lab, bad.id, b'{"id": 7', 1)
    else:
        await rewrite_call(lab, bad.calls[0], b'{"state":{"type":"levitating"}}', 1)
    if how == "abort":
        await lab.store.cancel(boss.id)
    else:
        lab.clock.advance(1)
        await lab.store.expire()
    for task_id in (top, tasks[0], tasks[2]):
        assert (await lab.store.task(task_id)).task.status == "cancelled"
    assert await lab.store.next_due() is None
