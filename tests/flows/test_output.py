"""asyncagents_output: how far a task is, what it came to, waiting for it, and who asks too often."""

import asyncio
from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import ToolCompleted, ToolPart, ToolWaiting
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.event import PartUpdated, SessionStatus, TaskCompleted
from asyncagents.llm.model import ChatRequest, UserTurn
from asyncagents.llm.scripted import ScriptStep, call, say, think
from tests.support.delegation import (
    RequestScript,
    RequestStep,
    build_gates,
    call_with_id,
    launch_task,
    open_delegation_stage,
    read_notices,
    request_outputs,
    task_named,
    wait_for_task_end,
    wait_until_quiet,
    wait_until_rest,
)
from tests.support.runtime import Stage
from tests.support.tool import ECHO, Gate

WORK: RequestScript = {"a": [[call("gate")], [say("A is 1.")]]}


def own(at: Stage) -> list[ChatRequest]:
    return [request for request in at.model.requests if request.messages[0] == UserTurn("go")]


@pytest.mark.spec("T-04", "T-06")
async def test_the_output_of_a_running_task_is_its_progress(tmp_path: Path) -> None:
    gate, look = Gate("gate"), Gate("look")
    scenes: RequestScript = {
        "go": [
            [launch_task("A", "a")],
            [call("look")],
            call_with_id("asyncagents_output"),
            [say("Ok.")],
            [say("Done.")],
        ],
        "a": [[call("echo", text="x")], [call("echo", text="y"), call("gate")], [say("A.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool, look.tool, ECHO) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        await look.until_started()
        task = await task_named(at.runtime, "A")
        look.go.set()
        assert (await prompt).text == "Ok."
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        done = await task_named(at.runtime, "A")
    said = request_outputs(own(at)[-1])[2]
    assert "status: running" in said
    assert "phase: tool" in said
    assert "tool_calls: 3 (echo 2, gate 1)" in said
    assert "last_tools: echo, echo, gate" in said
    assert task.progress is not None
    assert task.progress.tool_calls == 3
    assert task.progress.tool_calls_by_name == {"echo": 2, "gate": 1}
    assert task.progress.last_tools == ("echo", "echo", "gate")
    assert task.progress.phase == "tool"
    assert done.progress is not None
    assert done.progress.tool_calls == 3
    assert done.progress.phase is None
    assert done.result_retrieved_at is None


@pytest.mark.spec("T-04", "T-15")
async def test_the_output_of_an_ended_task_is_its_result_and_counts_as_its_notice(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], [call("gate")], call_with_id("asyncagents_output"), [say("Ok.")]],
        "a": [[say("A is 1.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        await wait_for_task_end(at, "A", TaskCompleted)
        assert (await task_named(at.runtime, "A")).result_retrieved_at is None
        gate.go.set()
        await prompt
        await wait_until_quiet(at.runtime, at.session_id)
        task = await task_named(at.runtime, "A")
        told = await read_notices(at)
    assert task.result_retrieved_at is not None
    # The end came before the third step began, so that step was told of it: then the read says it again.
    assert len(told) == 1
    assert "A is 1." in request_outputs(own(at)[-1])[-1]


@pytest.mark.spec("T-04")
async def test_a_blocking_output_call_that_expires_reports_a_running_task(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **WORK,
        "go": [
            [launch_task("A", "a")],
            call_with_id("asyncagents_output", block=True, timeout=0.05),
            [say("Not yet.")],
            [say("Now.")],
        ],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        await gate.until_started()
        await at.listener.until_text("Not yet.")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        told = await read_notices(at)
    assert "It is still at work." in request_outputs(own(at)[2])[-1]
    assert len(told) == 1


@pytest.mark.spec("T-04")
async def test_a_blocking_output_call_stores_its_task_and_its_deadline(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **WORK,
        "go": [[launch_task("A", "a")], call_with_id("asyncagents_output", block=True), [say("Ok.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        status = await at.listener.until_status(WaitingAsync)
        await gate.until_started()
        (waiting,) = await at.runtime.open_calls(at.session_id)
        why = await at.runtime.tasks.why(at.session_id)
        gate.go.set()
        await prompt
        await wait_until_quiet(at.runtime, at.session_id)
    assert isinstance(status, WaitingAsync)
    assert waiting.open is not None
    assert waiting.open.due is not None
    assert waiting.open.due - waiting.open.since == 30_000
    assert waiting.open.watch is not None
    assert why.code == "wait"
    assert why.on == (waiting.open.watch.task_id,)


@pytest.mark.spec("T-04")
async def test_a_blocking_output_call_waits_at_most_ten_minutes(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **WORK,
        "go": [
            [launch_task("A", "a")],
            call_with_id("asyncagents_output", block=True, timeout=99_999),
            [say("Ok.")],
        ],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_status(WaitingAsync)
        (waiting,) = await at.runtime.open_calls(at.session_id)
        await gate.until_started()
        gate.go.set()
        await prompt
        await wait_until_quiet(at.runtime, at.session_id)
    assert waiting.open is not None
    assert waiting.open.due is not None
    assert waiting.open.due - waiting.open.since == 600_000


@pytest.mark.spec("T-04")
@pytest.mark.parametrize("tool", ["asyncagents_output", "async_task_result"])
async def test_the_third_empty_poll_parks_until_any_task_ends(tmp_path: Path, tool: str) -> None:
    both = build_gates("left", "right")
    scenes: RequestScript = {
        "go": [
            [launch_task("A", "a"), launch_task("B", "b")],
            *[call_with_id(tool) for _ in range(3)],
            [say("Something ended.")],
            [say("All.")],
        ],
        "a": [[call("left")], [say("A.")]],
        "b": [[call("right")], [say("B.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, *(gate.tool for gate in both.values())) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        status = await at.listener.until_status(WaitingAsync)
        for gate in both.values():
            await gate.until_started()
        asked = len(own(at))
        both["right"].go.set()
        await wait_for_task_end(at, "B", TaskCompleted)
        await prompt
        await wait_until_rest(at.runtime, at.session_id)
        (notice,) = await read_notices(at)
        both["left"].go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        assert len(await read_notices(at)) == 2
    assert asked == 4
    assert isinstance(status, WaitingAsync) is True
    assert 'Agent "B"' in notice.text
    assert len(request_outputs(own(at)[4])) == 5


@pytest.mark.spec("T-04")
async def test_a_prompt_ends_the_wait_of_a_poll(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **WORK,
        "go": [
            [launch_task("A", "a")],
            *[call_with_id("asyncagents_output") for _ in range(3)],
            [say("No.")],
        ],
        "stop waiting": [[say("As you like.")], [say("It came.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_status(WaitingAsync)
        await gate.until_started()
        answer = await at.prompt("stop waiting")
        assert (await prompt).info.id == answer.info.id
        status = await at.status()
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        told = await read_notices(at)
    assert answer.text == "As you like."
    assert status == Idle()
    assert len(told) == 1
    assert "wait ended early" in request_outputs(own(at)[4])[-1]


@pytest.mark.spec("T-04")
async def test_polls_with_other_work_between_them_do_not_park(tmp_path: Path) -> None:
    gate = Gate("gate")
    poll = call_with_id("asyncagents_output")
    scenes: RequestScript = {
        **WORK,
        "go": [
            [launch_task("A", "a")],
            poll,
            poll,
            [call("echo", text="x")],
            poll,
            poll,
            [say("On.")],
            [say("Done.")],
        ],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool, ECHO) as at:
        answer = await at.prompt("go")
        status = await at.status()
        await gate.until_started()
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
    assert answer.text == "On."
    assert status == Idle()


@pytest.mark.spec("T-04")
async def test_a_transcript_is_paged_and_shows_reasoning_on_request(tmp_path: Path) -> None:
    def transcript(**more: object) -> RequestStep:
        return call_with_id("asyncagents_output", full_session=True, **more)

    def next_page(request: ChatRequest) -> ScriptStep:
        after = request_outputs(request)[-1].split('since_message_id="')[1].partition('"')[0]
        return transcript(since_message_id=after)(request)  # type: ignore[operator]

    scenes: RequestScript = {
        "go": [
            [launch_task("A", "a")],
            call_with_id("asyncagents_output", block=True),
            transcript(),
            transcript(include_thinking=True, thinking_max_chars=5, include_tool_results=True),
            transcript(message_limit=1),
            next_page,
            [say("Read.")],
        ],
        "a": [[think("abcdefghij"), call("echo", text="a sparrow")], [say("A is 1.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, ECHO) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
    plain, full, first, rest = request_outputs(own(at)[-1])[2:6]
    assert "A is 1." in plain
    assert "abcde" not in plain
    assert "abcde" in full
    assert "abcdef" not in full
    assert "sparrow" in full
    assert "2 later messages" in first
    assert ("A is 1." in first) is False
    assert ("A is 1." in rest) is True


@pytest.mark.spec("T-04")
@pytest.mark.parametrize("tool", ["asyncagents_output", "async_task_result"])
async def test_the_part_of_a_wait_names_its_task_while_it_waits_and_when_it_is_over(
    tmp_path: Path, tool: str
) -> None:
    """A blocking read, and the third poll in a row, which waits as well."""
    gate = Gate("gate")
    asking: list[RequestStep] = [call_with_id("asyncagents_output", block=True)]
    if tool == "async_task_result":
        asking = [call_with_id(tool)] * 3
    scenes: RequestScript = {**WORK, "go": [[launch_task("Find it", "a")], *asking, [say("Ok.")]]}
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.runtime.send(at.session_id, "go")
        await gate.until_started()
        await at.listener.until(SessionStatus, lambda event: isinstance(event.status, WaitingAsync))
        waiting = (await at.states())[-1]
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        over = (await at.states())[-1]
        child = (await task_named(at.runtime, "Find it")).session_id
    assert isinstance(waiting, ToolWaiting)
    assert isinstance(over, ToolCompleted)
    for state in (waiting, over):
        assert state.title == "Find it"
        assert (state.metadata or {}).get("sessionId") == child


@pytest.mark.spec("T-04")
async def test_the_part_of_a_wait_that_is_cut_short_or_over_names_its_task(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        **WORK,
        "go": [
            [launch_task("Find it", "a")],
            call_with_id("asyncagents_output", block=True, timeout=0.01),
            call_with_id("asyncagents_output", block=True, timeout=600),
            [say("Ok.")],
        ],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.runtime.send(at.session_id, "go")
        await gate.until_started()
        await until_third(at)
        await at.runtime.send(at.session_id, "Never mind.")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        _, over, cut_short = await at.states()
        child = (await task_named(at.runtime, "Find it")).session_id
    for state in (over, cut_short):
        assert isinstance(state, ToolCompleted)
        assert state.title == "Find it"
        assert state.metadata.get("sessionId") == child


async def until_third(at: Stage) -> None:
    """The third call waits."""

    def waits(event: PartUpdated) -> bool:
        part = event.part
        return (
            isinstance(part, ToolPart)
            and isinstance(part.state, ToolWaiting)
            and part.state.input.get("timeout") == 600
        )

    await at.listener.until(PartUpdated, waits)
