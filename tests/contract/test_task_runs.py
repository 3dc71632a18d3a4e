"""Each run of a task is counted by itself; sums over all runs are kept beside it."""

import json

import pytest

from asyncagents.domain.call.call import Completed, Running
from asyncagents.domain.fact import Resume
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.account import all_runs
from asyncagents.domain.task.task import Account, Task
from tests.support.store.lab import SPENT, Lab
from tests.support.store.task import open_parent, rewrite_task, task_row


async def _toil(lab: Lab, child: SessionId, *tools: str, rest: bool = True) -> None:
    """One step with calls of these tools, then one that answers, and the rest."""
    claim = await lab.claim(child)
    step = await lab.step(claim)
    turn = (await lab.store.control(child)).turn
    calls = [lab.call(step, tool=tool, turn=turn) for tool in tools]
    await lab.end(claim, step, *calls)
    for call in calls:
        await lab.move(claim, call, Running(claim.fence))
        await lab.store.finish_call(claim, call.id, Completed("ok"))
    if not rest:
        return
    if calls:
        await lab.end(claim, await lab.step(claim))
    control = await lab.store.control(child)
    assert await lab.store.rest(claim, control.wake_seq, "done")


async def _resume(lab: Lab, child: SessionId) -> None:
    await lab.store.resume(Resume(child, lab.input(child, "and?"), "and?"))


async def _task(lab: Lab, child: SessionId) -> Task:
    return (await lab.store.task(child)).task


async def _account(lab: Lab, child: SessionId) -> Account:
    account = (await _task(lab, child)).account
    assert account is not None
    return account


@pytest.mark.spec("Z-05", "T-08")
async def test_the_account_of_a_later_run_counts_only_that_run(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    await _toil(lab, child, "read", "bash")
    first = await _account(lab, child)
    lab.clock.advance(1_000)
    await _resume(lab, child)
    lab.clock.advance(50)
    await _toil(lab, child)
    second, task = await _account(lab, child), await _task(lab, child)
    assert first.tool_calls == 2
    assert first.tokens.input == 2 * SPENT.input
    assert second.tool_calls == 0
    assert second.by_name == {}
    assert second.last_tools == ()
    assert second.tokens.input == SPENT.input
    assert second.ms == 50
    totals = all_runs(task, second)
    assert totals is not None
    assert totals.tool_calls == 2
    assert totals.by_name == {"read": 1, "bash": 1}
    assert totals.tokens.input == 3 * SPENT.input
    assert totals.ms == first.ms + 50


@pytest.mark.spec("Z-05", "T-06")
async def test_the_progress_of_a_resumed_task_counts_only_its_run(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    await _toil(lab, child, "read", "bash")
    await _resume(lab, child)
    await _toil(lab, child, "grep", rest=False)
    progress = (await lab.store.task(child)).progress
    assert progress is not None
    assert progress.tool_calls == 1
    assert progress.by_name == {"grep": 1}
    assert progress.last_tools == ("grep",)
    assert progress.tokens.input == SPENT.input


@pytest.mark.spec("Z-05")
async def test_a_cancelled_run_is_counted_by_itself(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    await _toil(lab, child, "read", "bash")
    await _resume(lab, child)
    await _toil(lab, child, "grep", rest=False)
    await lab.store.cancel(child)
    task, account = await _task(lab, child), await _account(lab, child)
    assert task.status == "cancelled"
    assert account.by_name == {"grep": 1}
    assert account.tokens.input == SPENT.input
    totals = all_runs(task, account)
    assert totals is not None
    assert totals.tool_calls == 3


@pytest.mark.spec("Z-05")
async def test_work_for_a_person_between_two_runs_is_counted_in_no_run(lab: Lab) -> None:
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    await _toil(lab, child, "read")
    await lab.store.admit(lab.input(child, "by the way"))
    await _toil(lab, child, "bash", "bash")
    await _resume(lab, child)
    await _toil(lab, child, "grep")
    task, account = await _task(lab, child), await _account(lab, child)
    assert account.by_name == {"grep": 1}
    totals = all_runs(task, account)
    assert totals is not None
    assert totals.by_name == {"read": 1, "grep": 1}


@pytest.mark.spec("Z-05")
@pytest.mark.parametrize("live", [True, False])
async def test_runs_are_counted_right_after_rows_of_an_older_release(lab: Lab, live: bool) -> None:
    """It kept nothing of earlier runs: an account with the calls and tokens of all of them."""
    boss = await open_parent(lab)
    child = await boss.launch(boss.calls[0])
    await _toil(lab, child, "read", "bash")
    await _resume(lab, child)
    if not live:
        await _toil(lab, child)
    task = await _task(lab, child)
    raw, version = await task_row(lab, child)
    old = {name: value for name, value in json.loads(raw).items() if name not in ("base", "earlier")}
    old["account"]["tool_calls"], old["account"]["by_name"] = 2, {"read": 1, "bash": 1}
    await rewrite_task(lab, task, json.dumps(old).encode(), version)
    if not live:
        await _resume(lab, child)
    await _toil(lab, child, "grep")
    task, account = await _task(lab, child), await _account(lab, child)
    totals = all_runs(task, account)
    assert account.by_name == {"grep": 1}
    assert totals is not None
    assert totals.by_name == {"read": 1, "bash": 1, "grep": 1}
