"""Follow-ups: an ended task goes on with all it knows, a live one reads them before its next step."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.domain.event import TaskCancelled, TaskCompleted, TaskFailed, TaskUpdated
from asyncagents.domain.task.view import BackgroundTask
from asyncagents.errors import NotFound
from asyncagents.llm.model import ChatRequest, UserTurn
from asyncagents.llm.scripted import ScriptStep, call, fail, say
from tests.support.delegation import (
    RequestScript,
    child_session,
    launch_task,
    open_delegation_stage,
    read_notices,
    request_outputs,
    task_ids,
    task_named,
    visible_texts,
    wait_for_task_end,
    wait_until_quiet,
)
from tests.support.runtime import Stage
from tests.support.tool import Gate


def more(prompt: str) -> object:
    def step(request: ChatRequest) -> ScriptStep:
        return [call("asyncagents_task", prompt=prompt, resume=task_ids(request)[0])]

    return step


BASE: RequestScript = {
    "go": [[launch_task("A", "a")], [say("Off.")], [say("Told.")]],
    "again": [more("b"), [say("On it goes.")], [say("Told again.")]],  # type: ignore[list-item]
    "a": [[say("First.")]],
    "b": [[say("Second.")]],
}


async def _ended_once(at: Stage) -> BackgroundTask:
    await at.prompt("go")
    await wait_until_quiet(at.runtime, at.session_id)
    return await task_named(at.runtime, "A")


def _child_requests(at: Stage, first: str = "a") -> list[list[str]]:
    requests = [r for r in at.model.requests if r.messages[0] == UserTurn(first)]
    return [[told.text for told in r.messages if isinstance(told, UserTurn)] for r in requests]


@pytest.mark.spec("T-08", "T-03", "T-17")
async def test_an_ended_task_goes_on_with_its_whole_history(tmp_path: Path) -> None:
    async with open_delegation_stage(tmp_path, BASE) as at:
        before = await _ended_once(at)
        answer = await at.prompt("again")
        await wait_until_quiet(at.runtime, at.session_id)
        after = await task_named(at.runtime, "A")
        told = await read_notices(at)
        states = await at.states()
        updates = [e.task.status for e in at.listener.of(TaskUpdated)]
        children = await at.runtime.children(at.session_id)
    assert answer.text == "On it goes."
    assert isinstance(states[-1], ToolCompleted)
    assert "status: resumed (resume #1)" in states[-1].output
    assert _child_requests(at) == [["a"], ["a", "b"]]
    assert after.session_id == before.session_id
    assert after.resume_count == 1
    assert after.status == "completed"
    assert before.result == "First."
    assert after.result == "Second."
    assert after.started_at == before.started_at
    assert after.batch_id == before.batch_id
    assert [visible_texts(each)[0].split("**")[1].split(" in ")[0] for each in told] == [
        'Agent "A" finished',
        "Resume #1 completed",
    ]
    assert len(children) == 1
    assert updates == [] or "resumed" in updates


@pytest.mark.spec("T-08", "T-03")
async def test_a_resumed_task_has_the_status_resumed_until_it_ends(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**BASE, "b": [[call("gate")], [say("Second.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await _ended_once(at)
        await at.prompt("again")
        await gate.until_started()
        task = await task_named(at.runtime, "A")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        done = await task_named(at.runtime, "A")
    assert (task.status, task.completed_at, task.result, task.result_retrieved_at) == (
        *("resumed", None, None, None),
    )
    assert task.pending_resume is None
    assert done.status == "completed"
    assert done.result == "Second."


@pytest.mark.spec("T-08", "T-12")
async def test_the_notice_of_a_failed_resume_reports_the_failure(tmp_path: Path) -> None:
    scenes: RequestScript = {**BASE, "b": [[fail("no more")]]}
    async with open_delegation_stage(tmp_path, scenes) as at:
        await _ended_once(at)
        await at.prompt("again")
        await wait_for_task_end(at, "A", TaskFailed)
        await wait_until_quiet(at.runtime, at.session_id)
        *_, last = await read_notices(at)
        task = await task_named(at.runtime, "A")
    assert visible_texts(last)[0].startswith("✗ **Resume #1 failed in ")
    assert task.status == "error"
    assert task.error == "APIError: no more"


@pytest.mark.spec("T-08")
async def test_a_resume_of_a_running_task_is_queued_and_read_before_its_next_step(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**BASE, "a": [[call("gate")], [say("First.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        await at.prompt("again")
        task = await task_named(at.runtime, "A")
        states = await at.states()
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        done, told = await task_named(at.runtime, "A"), await read_notices(at)
    assert isinstance(states[-1], ToolCompleted)
    assert "still at work and reads your prompt next" in states[-1].output
    assert task.pending_resume is not None
    assert task.pending_resume.prompt == "b"
    assert task.resume_count == 1
    assert _child_requests(at) == [["a"], ["a", "b"]]
    assert done.status == "completed"
    assert done.result == "Second."
    assert done.pending_resume is None
    assert len(told) == 1


@pytest.mark.spec("T-08")
async def test_a_prompt_to_a_running_child_is_read_before_its_next_step(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**BASE, "a": [[call("gate")], [say("First.")]], "and this": [[say("Both.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        child = await child_session(at, "A")
        await at.runtime.send(child, "and this")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        done, told = await task_named(at.runtime, "A"), await read_notices(at)
    assert _child_requests(at) == [["a"], ["a", "and this"]]
    assert done.status == "completed"
    assert done.result == "Both."
    assert done.resume_count == 0
    assert len(told) == 1


@pytest.mark.spec("T-08")
async def test_a_prompt_to_an_ended_child_is_answered_without_a_second_notice(
    tmp_path: Path,
) -> None:
    scenes: RequestScript = {**BASE, "hello": [[say("Hi.")]]}
    async with open_delegation_stage(tmp_path, scenes) as at:
        before = await _ended_once(at)
        answer = await at.runtime.prompt(before.session_id, "hello")
        await wait_until_quiet(at.runtime, at.session_id)
        after, told = await task_named(at.runtime, "A"), await read_notices(at)
    assert answer.text == "Hi."
    assert before == after
    assert len(told) == 1


@pytest.mark.spec("T-08", "T-03")
async def test_a_cancelled_and_a_failed_task_can_be_resumed(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **BASE,
        "a": [[call("gate")], [say("never")]],
        "b": [[fail("no more")]],
        "third": [more("c"), [say("Once more.")], [say("At last.")]],  # type: ignore[list-item]
        "c": [[say("Third.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        await at.runtime.tasks.cancel(await child_session(at, "A"))
        await wait_for_task_end(at, "A", TaskCancelled)
        await wait_until_quiet(at.runtime, at.session_id)
        await at.prompt("again")
        await wait_for_task_end(at, "A", TaskFailed)
        await wait_until_quiet(at.runtime, at.session_id)
        await at.prompt("third")
        await wait_for_task_end(at, "A", TaskCompleted)
        await wait_until_quiet(at.runtime, at.session_id)
        task, told = await task_named(at.runtime, "A"), await read_notices(at)
    assert task.status == "completed"
    assert task.result == "Third."
    assert task.error is None
    assert task.ended_by is None
    assert task.resume_count == 2
    assert [visible_texts(each)[0][0] for each in told] == ["⊘", "✗", "✓"]


@pytest.mark.spec("T-08")
async def test_a_vanished_session_is_an_error_that_suggests_a_new_task(tmp_path: Path) -> None:
    async with open_delegation_stage(tmp_path, BASE) as at:
        task = await _ended_once(at)
        await at.runtime.delete_session(task.session_id)
        await at.prompt("again")
        *_, state = await at.states()
        with pytest.raises(NotFound, match="start a new task"):
            await at.runtime.tasks.resume(task.session_id, "b")
    assert isinstance(state, ToolFailed)
    assert "its session no longer exists. Start a new task." in state.error


@pytest.mark.spec("T-08")
async def test_a_resume_by_a_person_sends_a_notice_to_the_parent(tmp_path: Path) -> None:
    async with open_delegation_stage(tmp_path, BASE) as at:
        task = await _ended_once(at)
        for _ in range(2):
            await at.runtime.tasks.resume(task.session_id, "b", key="once")
        await wait_for_task_end(at, "A", TaskCompleted)
        await wait_until_quiet(at.runtime, at.session_id)
        after, told = await task_named(at.runtime, "A"), await read_notices(at)
    assert after.resume_count == 1
    assert after.result == "Second."
    assert visible_texts(told[-1])[0].startswith("✓ **Resume #1 completed")
    assert len(told) == 2


@pytest.mark.spec("T-08", "T-14")
async def test_an_unread_follow_up_is_read_after_a_restart(tmp_path: Path) -> None:
    gate = Gate("gate", effect="idempotent")
    scenes: RequestScript = {**BASE, "a": [[call("gate")], [say("First.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        await at.prompt("again")
        before = await task_named(at.runtime, "A")
    async with open_delegation_stage(tmp_path, scenes, gate.tool, serve=False) as still:
        kept = await task_named(still.runtime, "A")
    gate.go.set()
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as again:
        await wait_until_quiet(again.runtime, at.session_id)
        done = await task_named(again.runtime, "A")
    assert kept.pending_resume == before.pending_resume
    assert before.pending_resume is not None
    assert _child_requests(again)[-1] == ["a", "b"]
    assert done.status == "completed"
    assert done.result == "Second."


@pytest.mark.spec("T-10")
async def test_the_list_marks_a_resumed_task(tmp_path: Path) -> None:
    scenes: RequestScript = {**BASE, "list": [[call("asyncagents_list")], [say("Listed.")]]}
    async with open_delegation_stage(tmp_path, scenes) as at:
        task = await _ended_once(at)
        await at.prompt("again")
        await wait_until_quiet(at.runtime, at.session_id)
        async with asyncio.timeout(20):
            await at.prompt("list")
    listed = request_outputs(at.model.requests[-1])[-1]
    assert listed.startswith(f"{task.session_id} (resumed) completed @general")
