"""Delegation where several things meet: streams, waits, prompts, sync and background in one step."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from asyncagents.config.config import DelegationConfig
from asyncagents.domain.call.ask import Question
from asyncagents.domain.conversation.failure import aborted_error
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.domain.conversation.status import Busy, Idle, WaitingAsync
from asyncagents.domain.event import QuestionAsked, TaskCancelled, TaskCompleted, TaskFailed, TaskUpdated
from asyncagents.engine.tool import Pending, Tool, ToolContext
from asyncagents.errors import Conflict
from asyncagents.llm.model import ChatRequest, ModelEvent, TextEnd, UserTurn
from asyncagents.llm.scripted import ScriptStep, call, fail, say
from tests.support.delegation import (
    RequestScript,
    RequestScriptModel,
    allow_all,
    build_gates,
    call_task,
    call_with_id,
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
from tests.support.runtime import Stage, answer_of, open_stage
from tests.support.tool import Gate, NoArguments


class Held(RequestScriptModel):
    """Stops in the middle of what it says to "go", until it is let go."""

    def __init__(self, scenes: RequestScript) -> None:
        super().__init__(scenes)
        self.go = asyncio.Event()

    async def _play(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        async for event in super()._play(request):
            yield event
            if isinstance(event, TextEnd) and request.messages[0] == UserTurn("go"):
                await self.go.wait()


def own(at: Stage) -> list[ChatRequest]:
    return [request for request in at.model.requests if request.messages[0] == UserTurn("go")]


@pytest.mark.spec("T-12", "T-15")
async def test_two_tasks_that_end_while_the_parent_streams_share_one_later_notice(tmp_path: Path) -> None:
    scenes: RequestScript = {
        "go": [[launch_task("A", "a"), launch_task("B", "b")], [say("I go on.")], [say("Saw both.")]],
        "a": [[say("A.")]],
        "b": [[say("B.")]],
    }
    model = Held(scenes)
    async with open_stage(tmp_path, model, delegation=True, policy=allow_all) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_text("I go on.")
        done = [await task_named(at.runtime, name) for name in "AB"]
        while not all(task.completed_at for task in done):
            await at.listener.until(TaskCompleted)
            done = [await task_named(at.runtime, name) for name in "AB"]
        asked, early = len(own(at)), await read_notices(at)
        model.go.set()
        answer = await prompt
        await wait_until_quiet(at.runtime, at.session_id)
        told, last = await read_notices(at), (await at.messages())[-1]
    assert asked == 2
    assert early == []
    assert answer.text == "I go on."
    assert last.text == "Saw both."
    assert [len(visible_texts(each)) for each in told] == [2]
    assert len(own(at)) == 3


@pytest.mark.spec("D-01", "T-04")
async def test_a_sync_task_and_a_wait_in_one_step_are_both_waited_for(tmp_path: Path) -> None:
    both = build_gates("left", "right")

    def wait_and_work(request: ChatRequest) -> ScriptStep:
        return [
            call_task("S", "s"),
            call("asyncagents_output", task_id=task_ids(request)[0], block=True, timeout=600),
        ]

    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], wait_and_work, [say("Both.")]],
        "a": [[call("left")], [say("A.")]],
        "s": [[call("right")], [say("S.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, *(gate.tool for gate in both.values())) as at:
        await at.runtime.send(at.session_id, "go")
        for gate in both.values():
            await gate.until_started()
        held = await at.status()
        both["right"].go.set()
        await wait_for_task_end(at, "S", TaskCompleted)
        async with asyncio.timeout(20):
            waits = await at.runtime.wait(at.session_id)
        between = len(own(at))
        both["left"].go.set()
        await wait_until_quiet(at.runtime, at.session_id)
        last, told = (await at.messages())[-1].text, await read_notices(at)
    assert held == Busy()
    assert isinstance(waits, WaitingAsync) is True
    assert between == 2
    assert last == "Both."
    assert told == []
    assert "S." in request_outputs(own(at)[-1])[1]
    assert "A." in request_outputs(own(at)[-1])[2]


@pytest.mark.spec("D-01")
async def test_a_prompt_sent_during_a_sync_task_is_answered_after_it(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [[call_task("S", "s")], [say("Never said.")]],
        "s": [[call("gate")], [say("S.")]],
        "and?": [[say("With what S said.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        first = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        await at.runtime.send(at.session_id, "and?")
        before = len(own(at))
        gate.go.set()
        answer = await first
        await wait_until_quiet(at.runtime, at.session_id)
    assert before == 1
    assert answer.text == "With what S said."
    assert len(own(at)) == 2
    assert "S." in request_outputs(own(at)[-1])[0]


@pytest.mark.spec("D-04")
async def test_a_question_of_a_sync_child_is_asked_at_the_root_and_answered(tmp_path: Path) -> None:
    async def run(args: NoArguments, context: ToolContext) -> Pending:
        return Pending(
            kind="question", seconds=None, questions=(Question(question="?", header="", options=()),)
        )

    scenes: RequestScript = {
        "go": [[call_task("S", "s")], [say("Ok.")]],
        "s": [[call("ask")], [say("Thanks.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, Tool("ask", NoArguments, run)) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        asked = (await at.listener.until(QuestionAsked)).request
        (listed,) = await at.runtime.asks(at.session_id)
        await at.runtime.answer(asked.id, [["blue"]])
        await prompt
        child = await child_session(at, "S")
        (state,) = await at.states()
    assert [each.id for each in listed.lineage] == [at.session_id, child]
    assert isinstance(state, ToolCompleted)
    assert "Thanks." in state.output


@pytest.mark.spec("D-01", "T-08", "T-15")
async def test_a_sync_call_may_wait_for_a_task_that_runs_in_the_background(tmp_path: Path) -> None:
    gate = Gate("gate")

    def wait(request: ChatRequest) -> ScriptStep:
        return [call_task("More", "b", task_id=task_ids(request)[0])]

    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], wait, [say("I have it.")]],
        "a": [[call("gate")], [say("First.")]],
        "b": [[say("Both.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await gate.until_started()
        await at.listener.until(TaskUpdated, lambda event: event.task.resume_count == 1)
        gate.go.set()
        answer = await prompt
        await wait_until_quiet(at.runtime, at.session_id)
        told, task = await read_notices(at), await task_named(at.runtime, "A")
    assert answer.text == "I have it."
    assert told == []
    assert "Both." in request_outputs(own(at)[-1])[1]
    assert task.status == "completed"
    assert task.result == "Both."
    assert task.resume_count == 1


@pytest.mark.spec("D-01", "T-08")
@pytest.mark.parametrize("end", ["cancelled", "error"])
async def test_a_sync_call_goes_on_with_a_task_that_was_cancelled_or_failed(tmp_path: Path, end: str) -> None:
    gate = Gate("gate")
    begin: ScriptStep = [call("gate")] if end == "cancelled" else [fail("no luck")]
    scenes: RequestScript = {
        "go": [[launch_task("A", "a")], [say("Off.")], [say("I see.")]],
        "a": [begin, [say("never")]],
        "more": [lambda request: [call_task("More", "b", task_id=task_ids(request)[0])], [say("At last.")]],
        "b": [[say("Second.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        await at.prompt("go")
        if end == "cancelled":
            await gate.until_started()
            await at.runtime.tasks.cancel(await child_session(at, "A"))
            await wait_for_task_end(at, "A", TaskCancelled)
        else:
            await wait_for_task_end(at, "A", TaskFailed)
        await wait_until_quiet(at.runtime, at.session_id)
        before = await task_named(at.runtime, "A")
        answer = await at.prompt("more")
        after, told = await task_named(at.runtime, "A"), await read_notices(at)
    assert before.status == end
    assert after.status == "completed"
    assert after.result == "Second."
    assert answer.text == "At last."
    assert len(told) == 1
    assert "Second." in request_outputs(own(at)[-1])[-1]


@pytest.mark.spec("D-06", "T-04", "T-15")
async def test_an_abort_ends_a_wait_and_its_task_with_a_notice_at_the_next_turn(tmp_path: Path) -> None:
    gate = Gate("gate")
    scenes: RequestScript = {
        "go": [
            [launch_task("A", "a")],
            call_with_id("asyncagents_output", block=True, timeout=600),
            [say("never")],
        ],
        "a": [[call("gate")], [say("never")]],
        "next": [[say("Next.")]],
    }
    async with open_delegation_stage(tmp_path, scenes, gate.tool) as at:
        prompt = asyncio.ensure_future(at.prompt("go"))
        await at.listener.until_status(WaitingAsync)
        await gate.until_started()
        assert await at.abort()
        assert answer_of(await prompt).error == aborted_error()
        await wait_until_quiet(at.runtime, at.session_id)
        states, status = await at.states(), await at.status()
        answer = await at.prompt("next")
        (notice,) = await read_notices(at)
    assert isinstance(states[1], ToolFailed)
    assert status == Idle()
    assert answer.text == "Next."
    assert visible_texts(notice)[0].startswith("⊘")


@pytest.mark.spec("T-09")
async def test_only_a_live_task_moves_to_the_background(tmp_path: Path) -> None:
    scenes: RequestScript = {"go": [[call_task("S", "s")], [say("Ok.")]], "s": [[say("S.")]]}
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        with pytest.raises(Conflict, match="has ended"):
            await at.runtime.tasks.background(await child_session(at, "S"))


@pytest.mark.spec("T-12", "D-10")
async def test_a_tree_of_tasks_with_one_place_completes_and_notifies_its_root(tmp_path: Path) -> None:
    """Each child launches two of its own in the background and waits for both by ending its turn."""
    scenes: RequestScript = {
        "go": [[launch_task("L", "l"), launch_task("R", "r")], *[[say("Ok.")]] * 3],
        **{
            name: [
                [launch_task(f"{name}1", f"{name}1"), launch_task(f"{name}2", f"{name}2")],
                *[[say("Ok.")]] * 3,
            ]
            for name in "lr"
        },
        **{f"{name}{n}": [[say(f"{name}{n}")]] for name in "lr" for n in (1, 2)},
    }
    async with open_delegation_stage(tmp_path, scenes, limits=DelegationConfig(concurrent=1)) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
        tasks = await at.runtime.tasks.list(at.session_id)
        told = [text for notice in await read_notices(at) for text in visible_texts(notice)]
    assert [task.status for task in tasks] == ["completed"] * 6
    assert sorted(text.split('"')[1] for text in told) == ["L", "R"]
