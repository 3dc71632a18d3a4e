"""Limits of delegation: what is over one queues in order and says so, or is refused with a reason."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import Config, DelegationConfig
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import TaskCancelled, TaskCompleted
from asyncagents.errors import ConfigError, InvalidInput
from asyncagents.llm.model import UserTurn
from asyncagents.llm.scripted import ScriptedModel, call, pause, say
from tests.support.delegation import (
    RequestScript,
    RequestStep,
    call_task,
    child_session,
    find_notices,
    launch_task,
    open_delegation_stage,
    read_notices,
    task_named,
    visible_texts,
    wait_for_task_end,
    wait_until_quiet,
)
from tests.support.runtime import Stage, open_runtime
from tests.support.tool import Gate, build_pending_tool


def begun(at: Stage) -> list[str]:
    """First texts of the sessions that asked a model, in that order, besides the root's."""
    firsts = [r.messages[0].text for r in at.model.requests if isinstance(r.messages[0], UserTurn)]
    return [text for text in dict.fromkeys(firsts) if text != "go"]


@pytest.mark.spec("D-10", "T-03")
async def test_tasks_over_the_limit_queue_in_order_and_report_their_place(tmp_path: Path) -> None:
    gate = Gate("gate")
    names = "abcd"
    scenes: RequestScript = {
        "go": [[launch_task(name, name) for name in names], [say("Off.")], *[[say("Told.")]] * 4],
        "a": [[call("gate")], [say("A.")]],
        **{name: [[say(name)]] for name in "bcd"},
    }
    async with open_delegation_stage(
        tmp_path, scenes, gate.tool, limits=DelegationConfig(concurrent=1)
    ) as at:
        await at.prompt("go")
        await gate.until_started()
        states = await at.states()
        tasks = await at.runtime.tasks.list(at.session_id)
        why = await at.runtime.tasks.why(tasks[2].session_id)
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        done = await at.runtime.tasks.list(at.session_id)
    said = [state.output for state in states if isinstance(state, ToolCompleted)]
    assert [line for text in said for line in text.splitlines() if line.startswith("status:")] == [
        "status: running",
        "status: queued (place 1)",
        "status: queued (place 2)",
        "status: queued (place 3)",
    ]
    assert [task.description for task in tasks] == list(names)
    assert [task.status for task in tasks] == ["running"] * 4
    places = [(task.progress.phase, task.progress.place) for task in tasks if task.progress]
    assert places == [("tool", None), ("queued", 1), ("queued", 2), ("queued", 3)]
    assert why.code == "queued"
    assert ("place 2" in why.sentence) is True
    assert begun(at) == list(names)
    assert [task.status for task in done] == ["completed"] * 4


@pytest.mark.spec("D-10")
async def test_at_most_the_limit_of_tasks_work_at_once_and_all_end(tmp_path: Path) -> None:
    count, limit = 12, 3
    scenes: dict[str, Sequence[RequestStep]] = {
        f"child {n}": [[call("tick")], [pause(0.001), say("x")]] for n in range(count)
    }
    scenes["go"] = [[launch_task(f"T{n}", f"child {n}") for n in range(count)], *[[say("Ok.")]] * (count + 1)]
    at_once: list[int] = []
    async with open_delegation_stage(
        tmp_path, scenes, build_pending_tool("tick", seconds=0.001), limits=DelegationConfig(concurrent=limit)
    ) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        async with asyncio.timeout(20):
            for _ in range(count):
                event = await at.listener.until(TaskCompleted)
                live = await at.runtime.tasks.list(at.session_id, live=True)
                phases = [task.progress.phase for task in live if task.progress]
                at_once.append(sum(phase in ("streaming", "tool") for phase in phases))
                assert event.task.status == "completed"
        await prompt
        await wait_until_quiet(at.runtime, at.session_id)
    assert max(at_once) <= limit


@pytest.mark.spec("D-10")
async def test_a_task_that_waits_for_a_result_from_outside_holds_no_place(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[launch_task("A", "a"), launch_task("B", "b")], [say("Off.")], *[[say("Told.")]] * 2],
        "a": [[call("job")], [say("A.")]],
        "b": [[say("B.")]],
    }
    async with open_delegation_stage(
        tmp_path, scenes, build_pending_tool("job"), limits=DelegationConfig(concurrent=1)
    ) as at:
        await at.prompt("go")
        await wait_for_task_end(at, "B", TaskCompleted)
        task = await task_named(at.runtime, "A")
        (waiting,) = await at.runtime.open_calls(task.session_id)
        await at.runtime.complete(waiting.id, "7")
        await wait_for_task_end(at, "A", TaskCompleted)
        await wait_until_quiet(at.runtime, at.session_id)
    assert task.progress is not None
    assert task.status == "running"
    assert task.progress.phase == "waiting"


@pytest.mark.spec("D-10")
@pytest.mark.parametrize("tool", [call_task, launch_task])
async def test_a_launch_deeper_than_the_limit_creates_no_task(tmp_path: Path, tool: object) -> None:
    assert callable(tool)
    scenes: RequestScript = {
        "go": [[call_task("1", "one")], [say("Ok.")]],
        "one": [[call_task("2", "two")], [say("Ok.")]],
        "two": [[call_task("3", "three")], [say("Ok.")]],
        "three": [[tool("4", "four")], [say("I did it myself.")]],
        "four": [[say("never")]],
    }
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        deepest = await child_session(at, "3")
        tasks = await at.runtime.tasks.list(at.session_id)
        entries = await at.runtime.messages(deepest)
    assert [task.description for task in tasks] == ["1", "2", "3"]
    assert entries[-1].text == "I did it myself."
    assert "four" not in begun(at)


@pytest.mark.spec("D-10")
async def test_a_launch_over_the_spawn_limit_is_refused(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[launch_task(f"T{n}", f"child {n}") for n in range(5)], [say("Off.")], *[[say("Told.")]] * 3],
    }
    async with open_delegation_stage(tmp_path, scenes, limits=DelegationConfig(spawns=3)) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        states = await at.states()
        tasks = await at.runtime.tasks.list(at.session_id)
        children = await at.runtime.children(at.session_id)
    refused = [state.error for state in states if isinstance(state, ToolFailed)]
    assert len(tasks) == 3
    assert len(children) == 3
    assert len(refused) == 2
    assert all("a session may launch at most 3" in error for error in refused)


@pytest.mark.spec("D-10", "D-06")
async def test_a_queued_task_is_cancelled_without_a_request_to_a_model(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a"), launch_task("B", "b")], [say("Off.")], *[[say("Told.")]] * 2],
        "a": [[call("gate")], [say("A.")]],
        "b": [[say("never")]],
    }
    async with open_delegation_stage(
        tmp_path, scenes, gate.tool, limits=DelegationConfig(concurrent=1)
    ) as at:
        await at.prompt("go")
        await gate.until_started()
        queued = await child_session(at, "B")
        assert await at.runtime.tasks.cancel(queued)
        ended = await wait_for_task_end(at, "B", TaskCancelled)
        gate.go.set()
        await wait_for_task_end(at, "A", TaskCompleted)
        await wait_until_quiet(at.runtime, at.session_id)
        told = [text for notice in await read_notices(at) for text in visible_texts(notice)]
        status = await at.runtime.status(queued)
    assert ended.task.status == "cancelled"
    assert ended.task.ended_by == "user"
    assert status == Idle()
    assert begun(at) == ["a"]
    assert {text[0] for text in told} == {"✓", "⊘"}
    assert len(told) == 2


@pytest.mark.spec("D-10", "D-06")
async def test_an_abort_of_the_parent_cancels_queued_tasks(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a"), launch_task("B", "b")], [say("Off.")]],
        "a": [[call("gate")], [say("A.")]],
        "b": [[say("never")]],
    }
    async with open_delegation_stage(
        tmp_path, scenes, gate.tool, limits=DelegationConfig(concurrent=1)
    ) as at:
        await at.prompt("go")
        await gate.until_started()
        assert await at.abort()
        await wait_until_quiet(at.runtime, at.session_id)
        tasks = await at.runtime.tasks.list(at.session_id)
        statuses = await at.runtime.statuses()
    assert [(task.status, task.ended_by) for task in tasks] == [("cancelled", "user")] * 2
    assert begun(at) == ["a"]
    assert statuses == {}


@pytest.mark.spec("D-10", "T-14")
async def test_a_queue_outlives_the_process(tmp_path: Path) -> None:
    gate = Gate("gate", effect="idempotent")
    scenes: RequestScript = {
        "go": [[launch_task(name, name) for name in "abc"], [say("Off.")], *[[say("Told.")]] * 3],
        "a": [[call("gate")], [say("A.")]],
        **{name: [[say(name)]] for name in "bc"},
    }
    limits = DelegationConfig(concurrent=1)
    async with open_delegation_stage(tmp_path, scenes, gate.tool, limits=limits) as at:
        await at.prompt("go")
        await gate.until_started()
    gate.go.set()
    async with open_delegation_stage(tmp_path, scenes, gate.tool, limits=limits) as again:
        await wait_until_quiet(again.runtime, at.session_id)
        tasks = await again.runtime.tasks.list(at.session_id)
        told = [
            text
            for n in find_notices(await again.runtime.messages(at.session_id))
            for text in visible_texts(n)
        ]
    assert [task.status for task in tasks] == ["completed"] * 3
    assert len(told) == 3


@pytest.mark.spec("T-03", "D-10")
async def test_a_task_that_takes_too_long_is_ended_by_its_deadline(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], [say("Off.")], [say("Too slow.")]],
        "a": [[say("Hm"), pause(3600)]],
    }
    async with open_delegation_stage(tmp_path, scenes, limits=DelegationConfig(seconds=0.2)) as at:
        await at.prompt("go")
        ended = await wait_for_task_end(at, "A", TaskCancelled)
        await wait_until_quiet(at.runtime, at.session_id)
        (notice,) = await read_notices(at)
        answer = (await at.messages())[-1].text
    assert ended.task.status == "cancelled"
    assert ended.task.ended_by == "deadline"
    assert visible_texts(notice)[0].startswith('⊘ **Agent "A" cancelled after ')
    assert answer == "Too slow."


@pytest.mark.spec("T-03", "D-10")
async def test_a_resumed_task_has_a_deadline_again(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], [say("Off.")], [say("Told.")], [say("Too slow.")]],
        "a": [[say("A.")]],
        "b": [[say("Hm"), pause(3600)]],
    }
    async with open_delegation_stage(tmp_path, scenes, limits=DelegationConfig(seconds=1)) as at:
        await at.prompt("go")
        await wait_for_task_end(at, "A", TaskCompleted)
        await wait_until_quiet(at.runtime, at.session_id)
        await at.runtime.tasks.resume(await child_session(at, "A"), "b")
        ended = await wait_for_task_end(at, "A", TaskCancelled)
        await wait_until_quiet(at.runtime, at.session_id)
    assert ended.task.ended_by == "deadline"


@pytest.mark.spec("D-10", "D-06")
async def test_a_child_that_is_deleted_makes_room_for_the_next(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a"), launch_task("B", "b")], [say("Off.")], *[[say("Told.")]] * 2],
        "a": [[call("gate")], [say("never")]],
        "b": [[say("B.")]],
    }
    async with open_delegation_stage(
        tmp_path, scenes, gate.tool, limits=DelegationConfig(concurrent=1)
    ) as at:
        await at.prompt("go")
        await gate.until_started()
        await at.runtime.delete_session(await child_session(at, "A"))
        ended = await wait_for_task_end(at, "B", TaskCompleted)
        await wait_until_quiet(at.runtime, at.session_id)
    assert ended.task.result == "B."


@pytest.mark.parametrize(
    "limits",
    [
        {"concurrent": 0},
        {"depth": -1},
        {"spawns": -1},
        {"seconds": 0.0},
        {"seconds": float("inf")},
        {"seconds": float("nan")},
        {"seconds": 1e300},
    ],
)
def test_limits_that_allow_no_work_are_refused(limits: dict[str, Any]) -> None:
    """As those of a file are; with no place a task queued for ever."""
    with pytest.raises(ConfigError):
        DelegationConfig(**limits)


async def test_delegation_limits_beside_a_coding_config_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="which coding takes from the config"):
        async with open_runtime(
            tmp_path, model=ScriptedModel({}), coding=Config(data_dir=tmp_path), delegation=DelegationConfig()
        ):
            pass


async def test_a_custom_tool_named_task_replaces_the_launching_tool(tmp_path: Path) -> None:
    own = Gate("task")
    own.go.set()
    scenes: RequestScript = {"go": [[call("task")], [say("Done.")]]}
    async with open_delegation_stage(tmp_path, scenes, own.tool) as at:
        assert (await at.prompt("go")).text == "Done."
        names = [spec.name for spec in at.model.requests[0].tools]
    assert own.runs == 1
    assert len(names) == len(set(names))
