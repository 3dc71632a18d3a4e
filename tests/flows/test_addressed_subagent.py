"""A prompt over HTTP that names a subagent: its session gives it the task, and answers itself."""

from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import AgentConfig
from asyncagents.domain.event import SessionIdle
from asyncagents.llm.model import UserTurn
from asyncagents.llm.scripted import call, say
from tests.support.http.opencode import entry_text, text_prompt
from tests.support.http.server import StageClient, create_session, serve_coding_project

SCRIPT = {
    "Where is it?": [[say("In a.py.")]],
    "hi": [[say("Hello.")]],
    "go": [[call("task", description="Job", prompt="look", subagent_type="general")], [say("Ok.")]],
    "look": [[say("Red.")], [say("Redder.")], [say("Reddest.")]],
}


def asked(*names: str) -> dict[str, Any]:
    return {**text_prompt("Where is it?"), "agent": names[0] if names else None}


async def told(at: StageClient, where: str) -> list[Any]:
    return [part for each in (await at.get(f"{where}/message")).json for part in each["parts"]]


@pytest.mark.spec("D-11", "X-01")
@pytest.mark.parametrize("route", ["message", "prompt_async"])
async def test_a_prompt_that_names_a_subagent_is_a_task_for_it(tmp_path: Path, route: str) -> None:
    async with serve_coding_project(tmp_path, SCRIPT) as at:
        where = await create_session(at, tmp_path)
        answer = await at.post(f"{where}/{route}", asked("explore"))
        if route == "prompt_async":
            await at.stage.listener.until(SessionIdle, lambda event: where.endswith(event.session_id))
        parts = await told(at, where)
        (child,) = (await at.get(f"{where}/children")).json
        below = await told(at, f"/session/{child['id']}")
        after = (await at.get(where)).json

    (subtask,) = [part for part in parts if part["type"] == "subtask"]
    assert subtask["agent"] == "explore"
    assert subtask["prompt"] == "Where is it?"
    assert not [part for part in parts if part["type"] == "text" and part["text"] == "Where is it?"]
    assert [part["text"] for part in below if part["type"] == "text"] == ["Where is it?", "In a.py."]
    (call_,) = [part for part in parts if part["type"] == "tool"]
    assert "In a.py." in call_["state"]["output"]
    assert after["agent"] == "build"
    assert after["title"] == "Where is it?"
    if route == "message":
        assert answer.json["info"]["agent"] == "build"


@pytest.mark.spec("D-11", "X-01")
async def test_text_parts_become_one_subtask_and_other_parts_stay_in_the_session(
    tmp_path: Path,
) -> None:
    script = {**SCRIPT, "Where is it?\n\nLook twice.": [[say("Found.")]]}
    parts = [
        {
            "type": "file",
            "mime": "text/plain",
            "url": "data:text/plain,abc",
            "filename": "f.txt",
            "id": "prt_1",
        },
        {"type": "text", "text": "Where is it?", "id": "prt_2"},
        {"type": "text", "text": "for people", "ignored": True, "id": "prt_3"},
        {"type": "text", "text": "Look twice.", "id": "prt_4"},
    ]
    model = {"providerID": "scripted", "modelID": "owl"}
    async with serve_coding_project(tmp_path, script) as at:
        where = await create_session(at, tmp_path)
        said = await at.post(f"{where}/message", {"parts": parts, "agent": "explore", "model": model})
        kept = await told(at, where)
        owl = [each for each in at.stage.model.requests if each.model.model_id == "owl"]

    assert said.status == 200
    by_id = {part["id"]: part["type"] for part in kept}
    assert by_id["prt_2"] == "subtask"
    assert by_id["prt_3"] == "text"
    assert ("prt_4" in by_id) is False
    assert "file" in by_id.values()
    assert [each.messages[0] for each in owl] == [UserTurn("Where is it?\n\nLook twice.")]


@pytest.mark.spec("D-11", "D-04")
async def test_a_prompt_to_a_tasks_session_is_answered_there_by_the_named_agent(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path, SCRIPT) as at:
        where = await create_session(at, tmp_path)
        await at.post(f"{where}/message", text_prompt("go"))
        (child,) = (await at.get(f"{where}/children")).json
        below = f"/session/{child['id']}"
        own = await at.post(f"{below}/message", {**text_prompt("more"), "agent": "general"})
        other = await at.post(f"{below}/message", {**text_prompt("and?"), "agent": "explore"})
        deeper = (await at.get(f"{below}/children")).json

    assert [entry_text(each.json) for each in (own, other)] == ["Redder.", "Reddest."]
    assert [each.json["info"]["agent"] for each in (own, other)] == ["general", "explore"]
    assert deeper == []


@pytest.mark.spec("D-11", "X-01")
async def test_a_session_created_with_a_subagent_answers_as_that_agent(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path, SCRIPT) as at:
        where = await create_session(at, tmp_path, agent="explore")
        answer = await at.post(f"{where}/message", asked("explore"))
        children = (await at.get(f"{where}/children")).json

    assert entry_text(answer.json) == "In a.py."
    assert answer.json["info"]["agent"] == "explore"
    assert children == []


@pytest.mark.spec("D-11", "X-01")
@pytest.mark.parametrize("agent", ["plan", "reviewer"])
async def test_an_agent_that_is_no_subagent_answers_in_the_session(tmp_path: Path, agent: str) -> None:
    async with serve_coding_project(
        tmp_path, SCRIPT, agent={"reviewer": AgentConfig(description="Any.")}
    ) as at:
        where = await create_session(at, tmp_path)
        answer = await at.post(f"{where}/message", asked(agent))
        children = (await at.get(f"{where}/children")).json

    assert entry_text(answer.json) == "In a.py."
    assert answer.json["info"]["agent"] == agent
    assert children == []


@pytest.mark.spec("X-01")
async def test_a_prompt_with_no_reply_becomes_no_subtask(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path, SCRIPT) as at:
        where = await create_session(at, tmp_path)
        noted = await at.post(f"{where}/message", {**asked("explore"), "noReply": True})

    assert [part["type"] for part in noted.json["parts"]] == ["text"]


@pytest.mark.spec("D-11")
async def test_a_prompt_to_an_unknown_agent_is_refused_and_stores_nothing(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path, SCRIPT) as at:
        where = await create_session(at, tmp_path)
        refused = await at.post(f"{where}/message", asked("nobody"))
        assert refused.status == 400
        assert await told(at, where) == []
