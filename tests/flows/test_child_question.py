"""Questions of children: one that its parent waits for may ask people, one in the background may not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import AgentConfig
from asyncagents.domain.conversation.status import Busy
from asyncagents.domain.event import QuestionAsked, TaskCompleted
from asyncagents.llm.scripted import say
from tests.support.delegation import (
    ASK_QUESTION,
    RequestScript,
    child_session,
    launch_agent,
    open_delegation_project,
    request_outputs,
    requests_of,
    task_named,
    tool_names,
    wait_until_quiet,
)
from tests.support.runtime import Stage
from tests.support.wait import PATIENCE

SCENES: RequestScript = {
    "go": [[launch_agent("task", "general")], [say("Ok.")], [say("Told.")]],
    "look": [[ASK_QUESTION], [ASK_QUESTION], [say("Red.")]],
}


async def until_asked(at: Stage) -> str:
    return (await at.listener.until(QuestionAsked)).request.id


@pytest.mark.spec("D-04", "A-04")
@pytest.mark.parametrize("agent", ["general", "worker", "any"])
async def test_a_child_that_its_parent_waits_for_may_ask_people(tmp_path: Path, agent: str) -> None:
    own = {"worker": AgentConfig(mode="subagent"), "any": AgentConfig(description="All.")}
    scenes: RequestScript = {
        "go": [[launch_agent("task", agent)], [say("Ok.")]],
        "look": [[ASK_QUESTION], [say("Red.")]],
    }
    async with open_delegation_project(tmp_path, scenes, agent=own) as at, asyncio.TaskGroup() as group:
        answering = group.create_task(at.prompt("go"))
        asked = await until_asked(at)
        child = await child_session(at, "Job")
        (listed,) = await at.runtime.asks(at.session_id)
        status, held = await at.status(), not answering.done()
        await at.runtime.answer(asked, [["a"]])
        answer = await answering

    assert status == Busy()
    assert held is True
    assert listed.call.ask_id == asked
    assert listed.call.session_id == child
    assert [each.id for each in listed.lineage] == [at.session_id, child]
    assert "Which?\na" in request_outputs(requests_of(at, "look")[-1])[0]
    assert answer.text == "Ok."
    assert "Red." in request_outputs(requests_of(at, "go")[-1])[0]


@pytest.mark.spec("D-04", "A-03")
async def test_a_child_cannot_ask_if_its_agent_parent_or_configuration_denies_it(tmp_path: Path) -> None:
    settings: tuple[dict[str, Any], ...] = (
        {"agent": {"general": AgentConfig(permission={"question": "deny"})}},
        {"agent": {"build": AgentConfig(permission={"question": "deny"})}},
        {"permission": {"question": "deny"}},
    )
    for number, config in enumerate(settings):
        scenes: RequestScript = {
            "go": [[launch_agent("task", "general")], [say("Ok.")]],
            "look": [[ASK_QUESTION], [say("Red.")]],
        }
        async with open_delegation_project(tmp_path / f"{number}", scenes, **config) as at:
            await at.prompt("go")
        assert "question" not in tool_names(requests_of(at, "look")[0])
        assert "Not allowed here: question" in request_outputs(requests_of(at, "look")[-1])[0]


@pytest.mark.spec("D-04")
async def test_a_child_of_a_background_task_is_denied_questions(tmp_path: Path) -> None:
    own = {"lead": AgentConfig(mode="subagent", permission={"task": "allow"})}
    scenes: RequestScript = {
        "go": [[launch_agent("asyncagents_task", "lead", "lead")], [say("Ok.")], [say("Told.")]],
        "lead": [[launch_agent("task", "general")], [say("Led.")]],
        "look": [[ASK_QUESTION], [say("Red.")]],
    }
    async with open_delegation_project(tmp_path, scenes, agent=own) as at:
        await at.prompt("go")
        await wait_until_quiet(at.runtime, at.session_id)
    assert "question" not in tool_names(requests_of(at, "look")[0])
    assert "Not allowed here: question" in request_outputs(requests_of(at, "look")[-1])[0]


@pytest.mark.spec("D-04")
@pytest.mark.parametrize("own", [False, True])
async def test_an_open_question_survives_the_move_to_background_and_a_new_one_fails(
    tmp_path: Path, own: bool
) -> None:
    """A person was asked and is there to answer; what is asked later might never be."""
    agents = {"general": AgentConfig(permission={"todowrite": "deny", "todoread": "deny", "task": "deny"})}
    async with (
        open_delegation_project(tmp_path, SCENES, agent=agents if own else {}) as at,
        asyncio.TaskGroup() as group,
    ):
        answering = group.create_task(at.prompt("go"))
        asked = await until_asked(at)
        child = await child_session(at, "Job")
        await at.runtime.background(at.session_id)
        answer = await answering
        (listed,) = await at.runtime.asks(at.session_id)
        why = await at.runtime.tasks.why(child)
        task = await task_named(at.runtime, "Job")
        await at.runtime.answer(asked, [["a"]])
        async with asyncio.timeout(PATIENCE):
            await at.listener.until(TaskCompleted)
        await wait_until_quiet(at.runtime, at.session_id)

    assert answer.text == "Ok."
    assert listed.call.ask_id == asked
    assert task.status == "running"
    assert why.code == "question"
    assert why.on == (asked,)
    first, second = request_outputs(requests_of(at, "look")[-1])
    assert "Which?\na" in first
    assert "Not allowed here: question" in second
    assert "question" not in tool_names(requests_of(at, "look")[-1])
