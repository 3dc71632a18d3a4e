"""The asyncagents_* tools: tasks in the background, read, listed, waited for, cleared."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.domain.event import TaskCleared, TaskCompleted
from asyncagents.llm.model import ChatRequest, UserTurn
from asyncagents.llm.scripted import ScriptStep, call, say
from tests.support.delegation import (
    RequestScript,
    call_with_id,
    child_session,
    launch_task,
    open_delegation_stage,
    read_notices,
    request_outputs,
    task_ids,
    task_named,
    wait_until_quiet,
)
from tests.support.runtime import Stage, answer_of
from tests.support.tool import ECHO, Gate

WORK: RequestScript = {"a": [[call("gate")], [say("A is 1.")]]}


def own(at: Stage) -> list[ChatRequest]:
    return [request for request in at.model.requests if request.messages[0] == UserTurn("go")]


@pytest.mark.spec("T-01", "T-03", "T-16", "T-17")
async def test_a_launch_returns_at_once_with_the_id_of_the_task_that_it_recorded(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {**WORK, "go": [[launch_task("A", "a")], [say("Off it goes.")], [say("Done.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        answer = await at.prompt("go")
        await gate.until_started()
        task = await task_named(at.runtime, "A")
        (state,) = await at.states()
        asking = [entry.info.id for entry in await at.messages()][1]
        (child,) = await at.runtime.children(at.session_id)
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        done = await task_named(at.runtime, "A")
    assert answer.text == "Off it goes."
    assert isinstance(state, ToolCompleted)
    assert state.output.startswith(f"task_id: {child.id}\nagent: general\ndescription: A\n")
    assert state.title == "A"
    assert state.metadata["sessionId"] == child.id
    assert task.session_id == child.id
    assert task.parent_session_id == at.session_id
    assert task.parent_message_id == asking
    assert task.parent_agent == "build"
    assert task.agent == "general"
    assert task.prompt == "a"
    assert task.status == "running"
    assert task.completed_at is None
    assert task.result is None
    assert task.is_forked is False
    assert child.title == "A (@general subagent)"
    assert child.parent_id == at.session_id
    assert child.directory == str(tmp_path)
    assert done.status == "completed"
    assert done.result == "A is 1."
    assert done.ended_by is None
    assert done.completed_at is not None
    assert done.started_at <= done.completed_at


@pytest.mark.spec("T-02")
async def test_fork_and_resume_together_create_nothing(tmp_path: Path) -> None:
    scenes: RequestScript = {"go": [[launch_task("A", "a", fork=True, resume="ses_x")], [say("Ok.")]]}
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        (state,) = await at.states()
        tasks = await at.runtime.tasks.list()
        children = await at.runtime.children(at.session_id)
    assert isinstance(state, ToolFailed)
    assert ("mutually exclusive" in state.error) is True
    assert tasks == ()
    assert children == ()


@pytest.mark.spec("T-01")
async def test_a_new_task_needs_an_agent_and_a_description(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [
            [call("asyncagents_task", prompt="a"), call("asyncagents_task", prompt="a", agent="general")],
            [say("Ok.")],
        ]
    }
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        states = await at.states()
        tasks = await at.runtime.tasks.list()
    assert tasks == ()
    for state in states:
        assert isinstance(state, ToolFailed)
        assert "needs a description and an agent" in state.error


@pytest.mark.spec("T-05")
async def test_a_task_id_may_be_shortened_while_it_is_unambiguous(tmp_path: Path) -> None:
    def short(request: ChatRequest) -> ScriptStep:
        first, second = task_ids(request)[:2]
        common = next(n for n in range(len(first)) if first[n] != second[n])
        return [
            call("asyncagents_output", task_id=first[: common + 1]),
            call("asyncagents_output", task_id=second.removeprefix("ses_")),
            call("asyncagents_output", task_id=first[:common]),
            call("asyncagents_output", task_id="ses_zzz"),
            call("asyncagents_output", task_id=" "),
        ]

    scenes: RequestScript = {
        "go": [[launch_task("A", "a"), launch_task("B", "b")], [call("gate")], short, [say("Ok.")]],
        "a": [[say("A is 1.")]],
        "b": [[say("B is 2.")]],
    }
    gate = Gate("gate")
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        await until_quiet_tasks(at, 2)
        gate.go.set()
        await prompt
    first, second, both, none, blank = request_outputs(own(at)[-1])[-5:]
    assert ("A is 1." in first) is True
    assert ("B is 2." in second) is True
    assert "fits 2 of your tasks" in both
    assert ("You have no task" in none) is True
    assert ("You have no task" in blank) is True


async def until_quiet_tasks(at: Stage, count: int) -> None:
    for _ in range(count):
        await at.listener.until(TaskCompleted)


@pytest.mark.spec("T-10", "T-05")
async def test_a_list_shows_only_the_callers_tasks_and_reports_when_it_is_empty(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "nothing": [[call("asyncagents_list")], [say("None.")]],
        "go": [
            [launch_task("A", "a")],
            call_with_id("asyncagents_output", block=True, timeout=600),
            [say("Ok.")],
        ],
        "a": [[launch_task("B", "b")], [say("Wait.")], [say("A.")]],
        "b": [[say("B.")]],
        "list": [
            [
                call("asyncagents_list"),
                call("asyncagents_list", status="error"),
                call("asyncagents_list", status="x"),
            ],
            [say("Listed.")],
        ],
    }
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("nothing")
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        await at.prompt("list")
        child = await child_session(at, "A")
    texts = request_outputs(at.model.requests[-1])
    listed, failed, wrong = texts[-3:]
    assert texts[0] == failed == "No background tasks found"
    assert listed.startswith(f'{child} completed @general "A" started ')
    assert len(listed.splitlines()) == 1
    assert "status" in wrong


@pytest.mark.spec("T-05", "T-14")
async def test_clear_ends_and_forgets_the_callers_tasks(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **WORK,
        "go": [[launch_task("A", "a"), launch_task("B", "b")], [say("Off.")]],
        "b": [[call("gate")], [say("never")]],
        "clear": [[call("asyncagents_clear")], [call("asyncagents_list")], [say("Gone.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        await at.prompt("clear")
        await at.listener.until(TaskCleared)
        await at.listener.until(TaskCleared)
        await wait_until_quiet(at.runtime, at.session_id)
        tasks, told = await at.runtime.tasks.list(), await read_notices(at)
        children = await at.runtime.children(at.session_id)
    cleared, listed = request_outputs(at.model.requests[-1])[-2:]
    assert cleared.startswith("Cleared 2 tasks")
    assert listed == "No background tasks found"
    assert tasks == ()
    assert told == []
    assert len(children) == 2


@pytest.mark.spec("T-07")
async def test_the_launches_of_one_turn_share_a_batch_and_those_of_the_next_do_not(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], [launch_task("B", "b")], [say("Off.")]],
        "more": [[launch_task("C", "c")], [say("Off again.")]],
        **{name: [[say(name)]] for name in "abc"},
    }
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        await at.prompt("more")
        await wait_until_quiet(at.runtime, at.session_id)
        a, b, c = [(await task_named(at.runtime, name)).batch_id for name in "ABC"]
        listed = await at.runtime.tasks.batch(a)
    assert a == b != c
    assert [task.description for task in listed] == ["A", "B"]


@pytest.mark.spec("T-14")
async def test_a_task_keeps_all_its_fields_over_a_restart_and_can_still_be_read(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], [say("Off.")], [say("Told.")]],
        "a": [[call("echo", text="x")], [say("A is 1.")]],
        "read": [call_with_id("asyncagents_output"), [say("Read.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, ECHO) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        before = await task_named(at.runtime, "A")
    async with open_delegation_stage(tmp_path, scenes, ECHO) as again:
        after = await task_named(again.runtime, "A")
        await again.runtime.prompt(at.session_id, "read")
    assert before == after
    assert before.completed_at is not None
    assert "A is 1." in request_outputs(again.model.requests[-1])[-1]


@pytest.mark.spec("T-01")
async def test_the_parent_goes_on_while_its_tasks_work(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **WORK,
        "go": [[launch_task("A", "a")], [say("Off.")], [say("Told.")]],
        "hello": [[say("Hi.")], [say("Told.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        answer = await at.prompt("hello")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
    assert answer.text == "Hi."
    assert answer_of(answer).error is None
