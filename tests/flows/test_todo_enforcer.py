"""Who stops with todos left goes on, a bounded number of times, and never while it waits."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncagents.config.config import AgentConfig, Config
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import PermissionAsked
from asyncagents.llm.model import UserTurn
from asyncagents.llm.scripted import ScriptLine, call, fail, say
from asyncagents.plugins.todo_enforcer import todo_reminder
from tests.support.project import open_project
from tests.support.runtime import answer_of, open_stage
from tests.support.tool import NUDGE_MARK, OPEN_TODOS, read_nudges, write_todos

DONE = [{"content": "Look", "status": "completed"}, {"content": "Leap", "status": "cancelled"}]


@pytest.mark.spec("C-09")
async def test_a_session_that_stops_with_open_todos_gets_a_nudge(tmp_path: Path) -> None:
    script = {"go": [[write_todos(OPEN_TODOS)], [say("Done?")], [write_todos(DONE)], [say("Done.")]]}
    async with open_project(tmp_path, script) as at:
        answer = await at.prompt("go")
        told = await read_nudges(at)
    assert answer.text == "Done."
    assert told == [
        f"{NUDGE_MARK}\nYou have 1 incomplete TODO items:\n- [ ] Leap (in_progress)\n\n"
        "You MUST complete all TODOs before stopping. Continue working on the next pending item."
    ]
    assert at.request_messages(2)[-1] == UserTurn(told[0])


@pytest.mark.spec("C-09")
async def test_a_session_that_ignores_a_nudge_gets_no_second_one(tmp_path: Path) -> None:
    script = {"go": [[write_todos(OPEN_TODOS)], [say("Done?")], [say("I will not.")], [say("Never.")]]}
    async with open_project(tmp_path, script) as at:
        answer = await at.prompt("go")
        told = await read_nudges(at)
    assert answer.text == "I will not."
    assert len(told) == 1


@pytest.mark.spec("C-09", "S-07")
async def test_a_structured_answer_is_not_followed_by_a_nudge(tmp_path: Path) -> None:
    form = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    answer = call("StructuredOutput", city="Rome")
    async with open_project(
        tmp_path, {"go": [[write_todos(OPEN_TODOS)], [answer], *[[say("Left.")]] * 9]}
    ) as at:
        entry = await at.runtime.prompt(at.session_id, "go", format=form)
        assert await read_nudges(at) == []
    assert answer_of(entry).structured == {"city": "Rome"}


@pytest.mark.spec("C-09")
async def test_nudges_are_limited_until_the_next_prompt(tmp_path: Path) -> None:
    work = [step for n in range(9) for step in ([call("read", filePath=f"{n}")], [say(f"{n}.")])]
    script = {"go": [[write_todos(OPEN_TODOS)], *work], "again": [[say("No.")]]}
    async with open_project(tmp_path, script, todo_enforcer=3) as at:
        answer = await at.prompt("go")
        first = await read_nudges(at)
        await at.prompt("again")
        second = await read_nudges(at)
    assert answer.text == "3."
    assert len(first) == 3
    assert len(second) == 4


@pytest.mark.spec("C-09")
async def test_no_nudge_follows_an_error_a_denied_todowrite_or_a_limit_of_zero(
    tmp_path: Path,
) -> None:
    script = {"go": [[write_todos(OPEN_TODOS)], [fail("no")]], "on": [[say("Done.")]]}
    mute = {"mute": AgentConfig(permission={"todowrite": "deny"})}
    async with open_project(tmp_path, script, agent=mute) as at:
        await at.prompt("go")
        assert await read_nudges(at) == []
        await at.runtime.prompt(at.session_id, "on", agent="mute")
        assert await read_nudges(at) == []
        await at.runtime.prompt(at.session_id, "on", agent="build")
        assert len(await read_nudges(at)) == 1
    off = Config(data_dir=tmp_path / "off", todo_enforcer=0)
    script = {"go": [[write_todos(OPEN_TODOS)], [say("Done.")]]}
    async with open_stage(tmp_path / "off", script, coding=off, directory=tmp_path / "project") as at:
        await at.prompt("go")
        assert await read_nudges(at) == []


@pytest.mark.spec("C-09")
async def test_no_nudge_follows_an_open_or_rejected_ask(tmp_path: Path) -> None:
    script = {
        "go": [
            [write_todos(OPEN_TODOS), call("write", filePath="a", content="x")],
            [say("Done?")],
            [say("No.")],
        ]
    }
    async with open_project(tmp_path, script, permission={"edit": "ask"}) as at:
        await at.runtime.send(at.session_id, "go")
        asked = await at.listener.until(PermissionAsked)
        assert await read_nudges(at) == []
        await at.runtime.answer(asked.request.id, "reject")
        await at.runtime.wait(at.session_id)
        assert await read_nudges(at) == []


STATUSES = st.sampled_from(["pending", "in_progress", "completed", "cancelled"])
LISTS = st.lists(st.fixed_dictionaries({"content": st.sampled_from("abc"), "status": STATUSES}), max_size=3)
STEPS = st.lists(LISTS.map(lambda items: [write_todos(items)]) | st.just([say("Well.")]), max_size=14)


@pytest.mark.spec("C-09")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(steps=STEPS, limit=st.integers(0, 4))
async def test_no_list_of_todos_causes_more_nudges_than_the_limit(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[ScriptLine]], limit: int
) -> None:
    home = tmp_path_factory.mktemp("p")
    # Three equal calls in a row would ask a person, and nobody answers here.
    allow = {"doom_loop": "allow"}
    async with open_project(home, {"go": steps}, todo_enforcer=limit, permission=allow) as at:
        await at.prompt("go")
        told = await read_nudges(at)
    assert len(told) <= limit


def test_a_todo_with_line_breaks_stays_on_one_line_of_the_reminder() -> None:
    todo = Todo(id="1", content="a\n- [ ] b (done)", status="pending", priority="low")
    assert todo_reminder((todo,)).count("\n- ") == 1
