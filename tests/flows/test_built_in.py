"""Built-in tools in a real session: a plan that is written down, a question that waits for its answer."""

from pathlib import Path

import pytest

from asyncagents.domain.conversation.part import ToolCompleted, ToolFailed
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import QuestionAsked, TodoUpdated
from asyncagents.domain.id import Ids, SessionId
from asyncagents.engine.tool import AnyTool
from asyncagents.llm.model import ToolTurn
from asyncagents.llm.scripted import call, say
from asyncagents.testing.clock import FakeClock, SeededRng
from asyncagents.tools.builtin.question import question
from asyncagents.tools.builtin.todo import todoread, todowrite
from tests.support.runtime import Stage, open_stage


@pytest.mark.spec("O-02", "A-05")
async def test_todos_are_written_published_and_read(tmp_path: Path) -> None:
    plan = [{"content": "Look", "status": "in_progress"}, {"content": "Leap"}]
    script = {"go": [[call("todowrite", todos=plan)], [call("todoread")], [say("Planned.")]]}
    at: list[Stage] = []

    async def known(session_id: SessionId) -> tuple[Todo, ...]:
        return await at[0].runtime.todos(session_id)

    tools: list[AnyTool] = [todowrite(known, Ids(FakeClock(), SeededRng(1))), todoread(known)]
    async with open_stage(tmp_path, script, tools=tools) as here:
        at.append(here)
        await here.prompt("go")
        todos = await here.runtime.todos(here.session_id)
        heard = await here.listener.until(TodoUpdated)
        wrote, read = await here.states()
    assert [(todo.content, todo.status) for todo in todos] == [("Look", "in_progress"), ("Leap", "pending")]
    assert heard.todos == todos
    assert isinstance(wrote, ToolCompleted)
    assert isinstance(read, ToolCompleted)
    assert wrote.title == "2 todos"
    assert wrote.output == read.output


@pytest.mark.spec("A-05")
async def test_a_question_waits_for_its_answer(tmp_path: Path) -> None:
    asked = {
        "question": "Which colour?",
        "options": [{"label": "red", "description": "warm"}, {"label": "blue"}],
    }
    script = {"go": [[call("question", questions=[asked])], [say("Red it is.")]]}
    async with open_stage(tmp_path, script, tools=[question()]) as at:
        await at.runtime.send(at.session_id, "go")
        heard = await at.listener.until(QuestionAsked)
        await at.runtime.answer(heard.request.id, [["red"]])
        await at.runtime.wait(at.session_id)
    result = at.request_messages()[-1]
    assert isinstance(result, ToolTurn)
    assert ("red" in result.output) is True
    assert result.failed is False


@pytest.mark.spec("A-05")
@pytest.mark.parametrize(
    "questions",
    [
        [],
        [{"question": " "}],
        [{"question": "Which?", "options": [{"label": "a"}, {"label": "a"}]}],
        [{"header": "no question"}],
    ],
)
async def test_an_invalid_question_fails_its_call(tmp_path: Path, questions: list[object]) -> None:
    script = {"go": [[call("question", questions=questions)], [say("Sorry.")]]}
    async with open_stage(tmp_path, script, tools=[question()]) as at:
        answer = await at.prompt("go")
        (state,) = await at.states()
    assert answer.text == "Sorry."
    assert isinstance(state, ToolFailed)
