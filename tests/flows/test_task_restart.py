"""Tasks and the processes that run them: one ends, another goes on, two share the work."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents.config.config import DelegationConfig
from asyncagents.domain.conversation.status import WaitingAsync
from asyncagents.domain.event import TaskCancelled, TaskCompleted
from asyncagents.domain.id import SessionId
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.llm.scripted import call, pause, say
from tests.support.delegation import (
    RequestScript,
    RequestScriptModel,
    allow_all,
    call_task,
    call_with_id,
    child_session,
    find_notices,
    launch_task,
    open_delegation_stage,
    request_outputs,
    task_named,
    visible_texts,
    wait_for_task_end,
    wait_until_quiet,
)
from tests.support.runtime import Stage, open_runtime
from tests.support.tool import Gate
from tests.support.wait import PATIENCE

SCENES: RequestScript = {
    "go": [[launch_task("A", "a"), launch_task("B", "b")], [say("Off.")], *[[say("Told.")]] * 4],
    "a": [[call("gate")], [say("A is 1.")]],
    "b": [[say("B is 2.")]],
    "more": [[say("More.")]],
    "next": [[say("Next.")], *[[say("Told.")]] * 3],
}
Point = Callable[[Stage, Gate], Awaitable[None]]


async def at_work(at: Stage, gate: Gate) -> None:
    """One runs a tool."""


async def cancelled(at: Stage, gate: Gate) -> None:
    await at.runtime.tasks.cancel(await child_session(at, "A"))
    await wait_until_quiet(at.runtime, at.session_id)


async def aborted(at: Stage, gate: Gate) -> None:
    """All are ended, and nobody was told."""
    await at.abort()


async def ended(at: Stage, gate: Gate) -> None:
    gate.go.set()
    await wait_for_task_end(at, "A", TaskCompleted)
    await wait_until_quiet(at.runtime, at.session_id)


async def followed_up(at: Stage, gate: Gate) -> None:
    await at.runtime.tasks.resume(await child_session(at, "A"), "more")


async def resumed(at: Stage, gate: Gate) -> None:
    await ended(at, gate)
    await at.runtime.tasks.resume(await child_session(at, "B"), "more")
    await wait_until_quiet(at.runtime, at.session_id)


POINTS: dict[str, Point] = {
    each.__name__: each for each in (at_work, cancelled, aborted, ended, followed_up, resumed)
}


async def _all(runtime: Runtime) -> dict[str, BackgroundTask]:
    return {task.description: task for task in await runtime.tasks.list()}


@pytest.mark.spec("T-14", "T-15", "T-16")
@pytest.mark.parametrize("point", POINTS)
async def test_every_field_of_a_task_survives_a_restart_with_one_notice_per_end(
    tmp_path: Path, point: str
) -> None:
    gate = Gate("gate", effect="idempotent")
    async with open_delegation_stage(tmp_path, SCENES, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        await wait_for_task_end(at, "B", TaskCompleted)
        async with asyncio.timeout(PATIENCE):
            await at.runtime.wait(at.session_id)
        await POINTS[point](at, gate)
        before = await _all(at.runtime)
    async with open_delegation_stage(tmp_path, SCENES, gate.tool, serve=False) as still:
        assert _steady(await _all(still.runtime)) == _steady(before)
    gate.go.set()
    async with open_delegation_stage(tmp_path, SCENES, gate.tool) as again:
        await wait_until_quiet(again.runtime, at.session_id)
        await again.runtime.prompt(at.session_id, "next")
        after = await _all(again.runtime)
        entries = await again.runtime.messages(at.session_id)
    told = [text for notice in find_notices(entries) for text in visible_texts(notice)]
    assert len(told) == sum(1 + (task.resume_count if point == "resumed" else 0) for task in after.values())
    assert all(task.status in ("completed", "cancelled") for task in after.values())


def _steady(tasks: dict[str, BackgroundTask]) -> dict[str, Any]:
    """All but what a live task does at the moment."""
    return {name: replace(task, progress=None) for name, task in tasks.items()}


@pytest.mark.spec("T-14", "D-01", "D-10")
async def test_nested_sync_tasks_and_their_background_go_on_after_a_restart(tmp_path: Path) -> None:
    first, second = Gate("gate", effect="idempotent"), Gate("gate", effect="idempotent")
    scenes: RequestScript = {
        "go": [[call_task("S", "s")], [say("All done.")]],
        "s": [[launch_task("B", "b"), call_task("SS", "ss")], [say("S.")], [say("S, and B.")]],
        "ss": [[call("gate")], [say("SS.")]],
        "b": [[call("gate")], [say("B.")]],
    }
    limits = DelegationConfig(concurrent=1)
    async with open_delegation_stage(tmp_path, scenes, first.tool, limits=limits) as at:
        await at.runtime.send(at.session_id, "go")
        await first.until_started()
    second.go.set()
    async with open_delegation_stage(tmp_path, scenes, second.tool, limits=limits) as again:
        await wait_until_quiet(again.runtime, at.session_id)
        entries = await again.runtime.messages(at.session_id)
        tasks = await _all(again.runtime)
    assert entries[-1].text == "All done."
    assert {name: task.status for name, task in tasks.items()} == dict.fromkeys(("S", "B", "SS"), "completed")


@pytest.mark.spec("T-14", "T-04")
async def test_a_wait_for_a_task_goes_on_after_a_restart(tmp_path: Path) -> None:
    gate = Gate("gate", effect="idempotent")
    scenes: RequestScript = {
        "go": [
            [launch_task("A", "a")],
            call_with_id("asyncagents_output", block=True, timeout=600),
            [say("I have it.")],
        ],
        "a": [[call("gate")], [say("A is 1.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.runtime.send(at.session_id, "go")
        await at.listener.until_status(WaitingAsync)
        await gate.until_started()
    gate.go.set()
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as again:
        await wait_until_quiet(again.runtime, at.session_id)
        entries = await again.runtime.messages(at.session_id)
    assert entries[-1].text == "I have it."
    assert find_notices(entries) == []
    assert "A is 1." in request_outputs(again.model.requests[-1])[-1]


@pytest.mark.spec("X-07", "T-15")
async def test_two_runtimes_share_the_tasks_and_each_end_has_one_notice(tmp_path: Path) -> None:
    count = 12
    scenes: RequestScript = {
        "go": [[launch_task(f"T{n}", f"child {n}") for n in range(count)], *[[say("Ok.")]] * (count + 1)],
        **{f"child {n}": [[pause(0.01), say(f"{n}")]] for n in range(count)},
    }
    other = RequestScriptModel(scenes)
    async with (
        open_delegation_stage(tmp_path, scenes) as at,
        open_runtime(tmp_path, model=other, delegation=True, policy=allow_all) as second,
    ):
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        await wait_until_quiet(second, at.session_id)
        entries = await at.messages()
        tasks = await second.tasks.list(at.session_id)
    told = [text.split('"')[1] for notice in find_notices(entries) for text in visible_texts(notice)]
    assert sorted(told) == sorted(f"T{n}" for n in range(count))
    assert {task.status for task in tasks} == {"completed"}


@pytest.mark.spec("T-05", "X-07")
async def test_a_task_is_cancelled_from_another_process(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with open_delegation_stage(tmp_path, SCENES, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        child: SessionId = await child_session(at, "A")
        async with open_runtime(tmp_path, model=RequestScriptModel({}), serve=False) as other:
            assert await other.tasks.cancel(child)
        await wait_for_task_end(at, "A", TaskCancelled)
        async with asyncio.timeout(PATIENCE):
            await gate.ended.wait()
        await wait_until_quiet(at.runtime, at.session_id)
        task = await task_named(at.runtime, "A")
    assert task.status == "cancelled"
    assert task.ended_by == "user"
