"""`async_task` and `async_task_result`: launch, and ask for what came of it, in texts that are fixed."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.config.config import DelegationConfig
from asyncagents.domain.conversation.part import ToolCompleted
from asyncagents.domain.event import TaskCancelled, TaskCompleted, TaskFailed
from asyncagents.domain.id import SessionId
from asyncagents.llm.model import ChatRequest, UserTurn
from asyncagents.llm.scripted import ScriptStep, call, fail, say
from tests.support.delegation import (
    RequestScript,
    call_with_id,
    child_session,
    fire_task,
    open_delegation_stage,
    read_notices,
    request_outputs,
    task_named,
    wait_for_task_end,
    wait_until_quiet,
)
from tests.support.runtime import Stage
from tests.support.tool import ECHO, Gate


async def _read(at: Stage) -> str:
    """What the result tool says now."""
    await at.prompt("read")
    return request_outputs([r for r in at.model.requests if r.messages[0] == UserTurn("go")][-1])[-1]


READ: RequestScript = {
    "go": [[fire_task("Find it", "a")], [say("Off.")], [say("Told.")]],
    "read": [call_with_id("async_task_result"), [say("Read.")]],
}


@pytest.mark.spec("D-07", "T-17")
async def test_a_launch_returns_the_fixed_text_and_its_part_names_the_child(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**READ, "a": [[call("gate")], [say("Red.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        answer = await at.prompt("go")
        await gate.until_started()
        (state,) = await at.states()
        (child,) = await at.runtime.children(at.session_id)
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
    assert answer.text == "Off."
    assert isinstance(state, ToolCompleted)
    assert state.output == (
        f"task_id: {child.id}\nagent: general\ndescription: Find it\nstatus: launched\n\n"
        "Use async_task_result with this task_id to retrieve the result when ready."
    )
    assert state.title == "Find it"
    assert state.metadata["sessionId"] == child.id
    assert child.title == "Find it (@general subagent)"
    assert child.directory == str(tmp_path)


@pytest.mark.spec("D-09")
async def test_a_task_at_work_is_running(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**READ, "a": [[call("gate")], [say("Red.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        said, child = await _read(at), await child_session(at, "Find it")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
    assert said == f"status: running\ntask_id: {child}\n\nThe task is still in progress. Try again shortly."


@pytest.mark.spec("D-09", "T-15")
async def test_a_complete_task_gives_all_texts_of_its_last_message(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[fire_task("Find it", "a")], [call("gate")], call_with_id("async_task_result"), [say("Ok.")]],
        "a": [[say("Let me see."), call("echo", text="x")], [say("Red."), say("Dark red.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool, ECHO) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await wait_for_task_end(at, "Find it", TaskCompleted)
        await gate.until_started()
        gate.go.set()
        await prompt
        child = await child_session(at, "Find it")
        task = await task_named(at.runtime, "Find it")
    said = request_outputs(at.model.requests[-1])[-1]
    assert said.startswith(f"status: complete\ntask_id: {child}\n\n<task_result>\n")
    assert said.endswith("\n</task_result>")
    inside = said.partition("<task_result>\n")[2].removesuffix("\n</task_result>")
    assert inside.replace("\n", "") == "Red.Dark red."
    assert task.result_retrieved_at is not None


@pytest.mark.spec("D-09")
async def test_a_failed_task_gives_its_type_and_message(tmp_path: Path) -> None:
    scenes: RequestScript = {**READ, "a": [[fail("the model is on fire")]]}
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        await wait_for_task_end(at, "Find it", TaskFailed)
        await wait_until_quiet(at.runtime, at.session_id)
        said, child = await _read(at), await child_session(at, "Find it")
    assert said == f"status: error\ntask_id: {child}\nerror_type: APIError\n\nthe model is on fire"


@pytest.mark.spec("D-09", "D-06")
async def test_an_aborted_task_is_an_error_of_the_type_message_aborted(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**READ, "a": [[call("gate")], [say("Red.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        child = await child_session(at, "Find it")
        await at.runtime.abort(child)
        await wait_for_task_end(at, "Find it", TaskCancelled)
        await wait_until_quiet(at.runtime, at.session_id)
        said = await _read(at)
    assert said.startswith(f"status: error\ntask_id: {child}\nerror_type: MessageAbortedError\n\n")


@pytest.mark.spec("D-09")
async def test_a_task_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    scenes: RequestScript = {"go": [[call("async_task_result", task_id="ses_nobody")], [say("Ok.")]]}
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
    (said,) = request_outputs(at.model.requests[-1])
    assert said == (
        "status: error\ntask_id: ses_nobody\n\n"
        "Session not found. The task_id may be invalid or the session was deleted."
    )


@pytest.mark.spec("D-09")
async def test_a_task_whose_session_was_deleted_is_not_found(tmp_path: Path) -> None:
    scenes: RequestScript = {**READ, "a": [[say("Red.")]]}
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        child = await child_session(at, "Find it")
        await at.runtime.delete_session(child)
        said = await _read(at)
    assert said.startswith(f"status: error\ntask_id: {child}\n\nSession not found.")


@pytest.mark.spec("D-09")
async def test_a_session_that_is_no_task_of_the_caller_is_reported_as_existing(tmp_path: Path) -> None:
    """By every tool that takes the id of a task: it exists, and the text says what to do instead."""
    strangers: list[str] = []

    def ask(request: ChatRequest) -> ScriptStep:
        (other,) = strangers
        return [
            call("async_task_result", task_id=other),
            call("asyncagents_output", task_id=other),
            call("asyncagents_output", task_id=other.removeprefix("ses_"), full_session=True),
            call("asyncagents_cancel", task_id=other),
            call("asyncagents_task", prompt="more", resume=other),
            call("task", description="A", prompt="more", subagent_type="general", task_id=other),
        ]

    async with open_delegation_stage(tmp_path, {"go": [ask, [say("Ok.")]]}) as at:
        strangers.append((await at.runtime.create_session()).id)
        await at.prompt("go")
        said = await at.runtime.messages(SessionId(strangers[0]))
    result, *others = request_outputs(at.model.requests[-1])
    why = (
        "is not a task of yours: you did not launch it, or the task was cleared. "
        "Use a task_id that one of your launches returned."
    )
    assert result == f"status: error\ntask_id: {strangers[0]}\n\nThis session exists, but it {why}"
    assert [each for each in others if why not in each] == []
    assert [each for each in others if "You have no task" in each] == []
    assert said == ()


@pytest.mark.spec("D-09")
async def test_a_cleared_task_is_reported_as_an_existing_session(tmp_path: Path) -> None:
    scenes: RequestScript = {
        **READ,
        "a": [[say("Red.")]],
        "clear": [[call("asyncagents_clear")], call_with_id("async_task_result"), [say("Read.")]],
    }
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        child = await child_session(at, "Find it")
        await at.prompt("clear")
    said = request_outputs(at.model.requests[-1])[-1]
    assert said.startswith(f"status: error\ntask_id: {child}\n\nThis session exists, but it is not a task")


@pytest.mark.spec("D-09")
async def test_a_task_that_waits_or_queues_is_running(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[fire_task("A", "a"), fire_task("B", "b")], [say("Off.")], [say("Told.")], [say("Told.")]],
        "read": [call_with_id("async_task_result", 1), [say("Read.")]],
        "a": [[call("gate")], [say("A.")]],
        "b": [[say("B.")]],
    }
    limits = DelegationConfig(tools="async_task", concurrent=1)
    async with open_delegation_stage(tmp_path, scenes, gate.tool, limits=limits) as at:
        await at.prompt("go")
        await gate.until_started()
        queued = await task_named(at.runtime, "B")
        said = await _read(at)
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        told = [
            text for notice in await read_notices(at) for text in notice.text.splitlines() if "Agent" in text
        ]
    assert queued.progress is not None
    assert queued.status == "running"
    assert queued.progress.phase == "queued"
    assert queued.progress.place == 1
    assert said.startswith("status: running\n")
    assert len(told) == 2
