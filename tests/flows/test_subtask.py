"""A subtask that a person asks for is begun before the model is asked, as a call of the tool `task`."""

from pathlib import Path
from typing import Any

import pytest

from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed, ToolPart, ToolWaiting
from asyncagents.domain.conversation.part_input import PartInput, SubtaskInput
from asyncagents.domain.conversation.status import WaitingAsync
from asyncagents.engine.tool import Pending, Tool, ToolContext
from asyncagents.engine.workplace.agents import prompt_text
from asyncagents.llm.model import ModelTurn, ToolTurn, UserTurn
from asyncagents.llm.scripted import ScriptedModel, call, pause, say
from tests.support.runtime import Stage, answer_of, open_stage, resume_session, roles
from tests.support.tool import FIND_SUBTASK, GO_ON, Gate, TaskArguments, build_task_tool

DO = SubtaskInput(prompt="Do it", description="Do", agent="general")


def allow(ask: Any, context: Any) -> Any:
    return "allow"


async def ask(at: Stage, *parts: PartInput, text: str = "") -> Any:
    return await at.runtime.prompt(at.session_id, text, parts=list(parts))


@pytest.mark.spec("S-05")
async def test_subtasks_run_before_the_model_is_asked_and_it_reads_their_results(
    tmp_path: Path,
) -> None:
    seen: list[TaskArguments] = []
    async with open_stage(tmp_path, ScriptedModel({}), tools=[build_task_tool(seen)]) as at:
        entry = await ask(at, FIND_SUBTASK, DO, text="Both, please")
        entries = await at.messages()
        title = (await at.runtime.session(at.session_id)).title
    assert seen == [
        TaskArguments("Find", "Find it", "explore", "find"),
        TaskArguments("Do", "Do it", "general"),
    ]
    assert len(at.model.requests) == 1
    asked, called, first, second, go_on = at.request_messages()
    assert isinstance(asked, UserTurn)
    assert asked.text.splitlines() == [
        "Both, please",
        "The user starts a task for the subagent explore: Find",
        "The user starts a task for the subagent general: Do",
    ]
    assert isinstance(called, ModelTurn)
    assert [made.input["subagent_type"] for made in called.calls] == ["explore", "general"]
    assert [told.output for told in (first, second) if isinstance(told, ToolTurn)] == [
        "explore did it",
        "general did it",
    ]
    assert isinstance(go_on, UserTurn)
    assert go_on.text.startswith(GO_ON)
    assert roles(entries) == ["user", "assistant", "user", "assistant"]
    begun = entries[1].info
    assert isinstance(begun, AssistantMessage)
    assert begun.finish == "tool-calls"
    assert begun.parent_id == entries[0].info.id
    assert answer_of(entry).parent_id == entries[0].info.id
    assert title == "Both, please"


@pytest.mark.spec("S-05")
async def test_a_subtask_without_the_task_tool_fails_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with open_stage(tmp_path, ScriptedModel({})) as at:
        entry = await ask(at, FIND_SUBTASK)
        (state,) = await at.states()
        title = (await at.runtime.session(at.session_id)).title
    assert isinstance(state, ToolFailed)
    assert "There is no tool named 'task'" in state.error
    assert entry.text == "ok"
    assert title == "Find"


@pytest.mark.spec("S-05")
async def test_a_pending_subtask_parks_the_session_until_its_result(tmp_path: Path) -> None:
    async def run(args: TaskArguments, context: ToolContext) -> Pending:
        return Pending(note="started")

    async with open_stage(tmp_path, ScriptedModel({}), tools=[Tool("task", TaskArguments, run)]) as at:
        entry = await ask(at, FIND_SUBTASK)
        assert isinstance(entry.parts[0], ToolPart)
        assert isinstance(entry.parts[0].state, ToolWaiting)
        assert isinstance(await at.status(), WaitingAsync)
        assert at.model.requests == []
        waiting = await at.open_call()
        await at.runtime.complete(waiting.id, "Found.")
        await at.runtime.wait(at.session_id)
    *_, result, go_on = at.request_messages()
    assert isinstance(result, ToolTurn)
    assert result.output == "Found."
    assert len(at.model.requests) == 1
    assert isinstance(go_on, UserTurn)
    assert go_on.text.startswith(GO_ON)


@pytest.mark.spec("S-05")
async def test_a_prompt_during_a_pending_subtask_is_answered_without_a_reminder(tmp_path: Path) -> None:
    async def run(args: TaskArguments, context: ToolContext) -> Pending:
        return Pending()

    async with open_stage(
        tmp_path, {"hello": [[say("Hello.")]]}, tools=[Tool("task", TaskArguments, run)]
    ) as at:
        await ask(at, FIND_SUBTASK)
        entry = await at.prompt("hello")
        waiting = await at.open_call()
        await at.runtime.complete(waiting.id, "Found.")
        await at.runtime.wait(at.session_id)
    assert entry.text == "Hello."
    assert [GO_ON in told.text for told in at.request_messages() if isinstance(told, UserTurn)] == [False] * 3


@pytest.mark.spec("S-05")
async def test_an_abort_ends_a_subtask_and_the_next_prompt_does_not_begin_it_again(tmp_path: Path) -> None:
    gate = Gate("task")
    async with open_stage(tmp_path, ScriptedModel({}), tools=[gate.tool]) as at:
        await at.runtime.send(at.session_id, "", parts=[FIND_SUBTASK])
        await gate.until_started()
        assert await at.abort()
        entry = await at.prompt("hello")
        states = await at.states()
    assert entry.text == "ok"
    assert gate.runs == 1
    assert [type(state) for state in states] == [ToolFailed]


@pytest.mark.spec("S-05")
async def test_a_subtask_whose_process_ended_is_in_doubt_and_the_turn_goes_on(
    tmp_path: Path,
) -> None:
    gate = Gate("task")
    async with open_stage(tmp_path, ScriptedModel({}), tools=[gate.tool]) as at:
        await at.runtime.send(at.session_id, "", parts=[FIND_SUBTASK])
        await gate.until_started()
    model = ScriptedModel({})
    entries = await resume_session(tmp_path, at.session_id, model, gate.tool)
    (state,) = [part.state for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
    assert gate.runs == 1
    assert isinstance(state, ToolFailed)
    assert entries[-1].text == "ok"
    assert len(model.requests) == 1


@pytest.mark.spec("S-05")
async def test_a_repeated_step_after_a_subtask_has_one_reminder_to_go_on(tmp_path: Path) -> None:
    seen: list[TaskArguments] = []
    script = {prompt_text("subtask-done"): [[say("I beg"), pause(3600)]]}
    async with open_stage(tmp_path, script, tools=[build_task_tool(seen)]) as at:
        await at.runtime.send(at.session_id, "", parts=[FIND_SUBTASK])
        await at.listener.until_text("I beg")
    model = ScriptedModel({})
    entries = await resume_session(tmp_path, at.session_id, model, build_task_tool(seen))
    told = [each for each in model.requests[0].messages if isinstance(each, UserTurn) and GO_ON in each.text]
    assert len(seen) == len(told) == 1
    assert entries[-1].text == "ok"


async def test_a_subtask_sent_to_a_busy_session_is_not_lost(tmp_path: Path) -> None:
    seen: list[TaskArguments] = []
    gate = Gate("gate")
    script = {"go": [[call("gate")], [say("Done.")]]}
    async with open_stage(tmp_path, script, tools=[gate.tool, build_task_tool(seen)]) as at:
        await at.runtime.send(at.session_id, "go")
        await gate.until_started()
        await at.runtime.send(at.session_id, "", parts=[FIND_SUBTASK])
        gate.go.set()
        await at.runtime.wait(at.session_id)
        states = await at.states()
    assert len(seen) == 1
    assert [type(state) for state in states] == [ToolCompleted, ToolCompleted]


@pytest.mark.spec("S-05")
async def test_a_subtask_in_a_long_history_keeps_its_position_in_the_request(tmp_path: Path) -> None:
    seen: list[TaskArguments] = []
    async with open_stage(tmp_path, ScriptedModel({}), tools=[build_task_tool(seen)]) as at:
        for number in range(20):
            await at.prompt(f"prompt {number}")
        await ask(at, FIND_SUBTASK)
        await at.prompt("And now?")
    kinds = [type(told) for told in at.request_messages()]
    assert kinds == [UserTurn, ModelTurn] * 20 + [
        *(UserTurn, ModelTurn, ToolTurn, UserTurn, ModelTurn),
        UserTurn,
    ]
    assert len(seen) == 1


@pytest.mark.spec("D-11")
async def test_a_prompt_that_is_addressed_to_a_subagent_becomes_a_task_for_it(tmp_path: Path) -> None:
    script = {"Where is it?": [[say("In a.txt.")]]}
    async with open_stage(
        tmp_path, ScriptedModel(script, otherwise=[say("It says: a.txt")]), coding=True
    ) as at:
        entry = await at.runtime.prompt(at.session_id, "Where is it?", agent="explore")
        (child,) = await at.runtime.children(at.session_id)
        session = await at.runtime.session(at.session_id)
        again = await at.runtime.prompt(child.id, "Where is it?", agent="explore")
        grandchildren = await at.runtime.children(child.id)
    assert entry.text == "It says: a.txt"
    assert session.agent == "build"
    assert child.agent == "explore"
    assert child.title == "Where is it? (@explore subagent)"
    assert again.text == "In a.txt."
    assert grandchildren == ()
