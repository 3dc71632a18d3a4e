"""A task whose row cannot be read harms nobody but itself."""

from pathlib import Path

import pytest

from asyncagents.config.config import DelegationConfig
from asyncagents.domain.event import TaskCancelled, TaskCompleted, TaskFailed
from asyncagents.llm.scripted import call, say
from tests.support.delegation import (
    build_gates,
    is_idle,
    launch_task,
    open_delegation_stage,
    request_outputs,
    task_named,
    wait_for_task_end,
    wait_until_rest,
)
from tests.support.store.row import spoil_row

LAUNCHES = [launch_task("A", "child a"), launch_task("B", "child b"), launch_task("C", "child c")]
AT_WORK = {
    "go": [LAUNCHES, [say("ok")], [call("asyncagents_clear")], [say("ok")], [say("ok")]],
    "child a": [[call("a")], [say("A")]],
    "child b": [[call("b")], [say("B")]],
    "child c": [[call("c")], [say("C")]],
}


@pytest.mark.spec("D-06")
async def test_an_abort_ends_the_siblings_of_an_unreadable_task(tmp_path: Path) -> None:
    works = build_gates("a", "b", "c")
    async with open_delegation_stage(tmp_path, AT_WORK, *(gate.tool for gate in works.values())) as at:
        await at.prompt("go")
        for gate in works.values():
            await gate.started.wait()
        spoil_row(tmp_path, (await task_named(at.runtime, "B")).session_id)
        assert await at.abort()
        statuses = {task.description: task.status for task in await at.runtime.tasks.list()}
        assert await is_idle(at.runtime, at.session_id)
    assert statuses == {"A": "cancelled", "C": "cancelled"}
    assert [gate.ended.is_set() for gate in works.values()] == [True] * 3


@pytest.mark.spec("D-06")
async def test_a_session_is_deleted_with_an_unreadable_task(tmp_path: Path) -> None:
    works = build_gates("a", "b", "c")
    async with open_delegation_stage(tmp_path, AT_WORK, *(gate.tool for gate in works.values())) as at:
        await at.prompt("go")
        for gate in works.values():
            await gate.started.wait()
        spoil_row(tmp_path, (await task_named(at.runtime, "B")).session_id)
        await at.runtime.delete_session(at.session_id)
        assert await at.runtime.tasks.list() == ()
        assert await at.runtime.sessions(tmp_path) == ()


@pytest.mark.spec("T-05")
async def test_a_parent_clears_an_unreadable_task_with_the_others(tmp_path: Path) -> None:
    works = build_gates("a", "b", "c")
    async with open_delegation_stage(tmp_path, AT_WORK, *(gate.tool for gate in works.values())) as at:
        await at.prompt("go")
        for gate in works.values():
            await gate.started.wait()
        spoil_row(tmp_path, (await task_named(at.runtime, "B")).session_id)
        entry = await at.prompt("clear")
        tasks = await at.runtime.tasks.list()
    assert entry.text == "ok"
    assert tasks == ()
    assert request_outputs(at.model.requests[-1])[-1].startswith("Cleared 2 tasks")


@pytest.mark.spec("T-15")
async def test_siblings_of_an_unreadable_task_can_complete_and_be_cancelled(tmp_path: Path) -> None:
    works = build_gates("a", "b", "c")
    scenes = AT_WORK | {"go": [LAUNCHES, *[[say("ok")]] * 5]}
    async with open_delegation_stage(tmp_path, scenes, *(gate.tool for gate in works.values())) as at:
        await at.prompt("go")
        for gate in works.values():
            await gate.started.wait()
        spoil_row(tmp_path, (await task_named(at.runtime, "B")).session_id)
        works["a"].go.set()
        await wait_for_task_end(at, "A", TaskCompleted)
        await wait_until_rest(at.runtime, at.session_id)
        why = await at.runtime.tasks.why(at.session_id)
        await at.runtime.tasks.cancel((await task_named(at.runtime, "C")).session_id)
        await wait_for_task_end(at, "C", TaskCancelled)
    assert why.code == "tasks"


@pytest.mark.spec("D-06")
@pytest.mark.parametrize("table", ["session", "call"])
async def test_an_abort_ends_a_task_whose_session_cannot_be_read_and_all_others(
    tmp_path: Path, table: str
) -> None:
    works = build_gates("a", "b", "c")
    async with open_delegation_stage(tmp_path, AT_WORK, *(gate.tool for gate in works.values())) as at:
        await at.prompt("go")
        for gate in works.values():
            await gate.started.wait()
        spoil_row(tmp_path, (await task_named(at.runtime, "B")).session_id, table)
        assert await at.abort()
        statuses = {task.description: task.status for task in await at.runtime.tasks.list()}
    assert statuses == {"A": "cancelled", "B": "cancelled", "C": "cancelled"}


@pytest.mark.spec("T-05")
@pytest.mark.parametrize("table", ["session", "call"])
async def test_a_parent_clears_a_task_whose_session_cannot_be_read_and_goes_on(
    tmp_path: Path, table: str
) -> None:
    works = build_gates("a", "b", "c")
    async with open_delegation_stage(tmp_path, AT_WORK, *(gate.tool for gate in works.values())) as at:
        await at.prompt("go")
        for gate in works.values():
            await gate.started.wait()
        spoil_row(tmp_path, (await task_named(at.runtime, "B")).session_id, table)
        entry = await at.prompt("clear")
        tasks = await at.runtime.tasks.list()
    assert entry.text == "ok"
    assert tasks == ()


@pytest.mark.spec("D-10", "T-15")
async def test_an_unreadable_child_does_not_block_the_queue_for_a_place(tmp_path: Path) -> None:
    """One place: B and C wait while A works, and B breaks."""
    works = build_gates("a", "b", "c")
    scenes = AT_WORK | {"go": [LAUNCHES, *[[say("ok")]] * 5]}
    limits = DelegationConfig(tools="both", concurrent=1)
    async with open_delegation_stage(
        tmp_path, scenes, *(gate.tool for gate in works.values()), limits=limits
    ) as at:
        await at.prompt("go")
        await works["a"].started.wait()
        spoil_row(tmp_path, (await task_named(at.runtime, "B")).session_id, "session")
        for gate in works.values():
            gate.go.set()
        failed = await wait_for_task_end(at, "B", TaskFailed)
        await wait_for_task_end(at, "C", TaskCompleted)
        await wait_until_rest(at.runtime, at.session_id)
        await at.runtime.delete_session(at.session_id)
        assert await at.runtime.sessions(tmp_path) == ()
    assert "cannot be read" in (failed.task.error or "")
