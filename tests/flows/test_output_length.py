"""A step that reaches the limit of the model's output: an error only where it left nothing to read."""

from pathlib import Path

import pytest

from asyncagents.domain.conversation.failure import MessageOutputLengthError
from asyncagents.domain.event import SessionError, TaskFailed
from asyncagents.llm.model import ChatRequest
from asyncagents.llm.scripted import ScriptStep, call, end, say, think
from tests.support.delegation import (
    RequestScriptModel,
    launch_task,
    open_delegation_stage,
    task_named,
    wait_for_task_end,
)
from tests.support.runtime import answer_of, open_stage
from tests.support.tool import ECHO


@pytest.mark.spec("C-01")
async def test_a_step_that_left_no_text_at_its_limit_is_an_error(tmp_path: Path) -> None:
    async with open_stage(tmp_path, {"go": [[think("Hm."), end("length")], [say("Again.")]]}) as at:
        answer = await at.prompt("go")
        told = await at.listener.until(SessionError)
    last = answer_of(answer)
    assert last.finish == "length"
    assert type(last.error) is MessageOutputLengthError
    assert told.error == last.error
    assert len(at.model.requests) == 1


@pytest.mark.spec("C-01")
@pytest.mark.parametrize(
    "step", [[say("Half")], [call("echo", text="x")], [say("Half"), call("echo", text="x")]]
)
async def test_a_step_that_left_something_at_its_limit_ends_the_turn_without_an_error(
    tmp_path: Path, step: list[object]
) -> None:
    script = {"go": [[*step, end("length")], [say("Again.")]]}
    async with open_stage(tmp_path, script, tools=[ECHO]) as at:  # type: ignore[arg-type]
        last = answer_of(await at.prompt("go"))
    assert last.finish == "length"
    assert last.error is None
    assert len(at.model.requests) == 1


@pytest.mark.spec("C-01", "T-03")
async def test_a_task_that_left_no_text_at_its_limit_failed(tmp_path: Path) -> None:
    scenes = {"go": [[launch_task("A", "a")], [say("Off.")], [say("Told.")]], "a": [[end("length")]]}
    async with open_delegation_stage(tmp_path, scenes) as at:
        await at.prompt("go")
        await wait_for_task_end(at, "A", TaskFailed)
        task = await task_named(at.runtime, "A")
    assert task.status == "error"
    assert "before it wrote any text" in str(task.error)


@pytest.mark.spec("C-01", "S-07")
async def test_a_structured_answer_is_tried_again_after_a_step_without_text(tmp_path: Path) -> None:
    form = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

    def scene(request: ChatRequest) -> ScriptStep:
        return [end("length")] if len(request.messages) == 1 else [call("StructuredOutput", city="Rome")]

    async with open_stage(tmp_path, RequestScriptModel({"go": [scene]})) as at:
        entry = await at.runtime.prompt(at.session_id, "go", format=form)
    assert answer_of(entry).structured == {"city": "Rome"}
