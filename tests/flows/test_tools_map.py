"""The `tools` map of a prompt: it is laid over the rules of its session and lifts no denial."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import AgentConfig, CommandConfig
from asyncagents.llm.scripted import call, say
from tests.support.http.opencode import text_prompt
from tests.support.http.server import StageClient, create_session, serve_coding_project
from tests.support.transfer import export_files, import_into_store, open_other_store

NO_BASH = {"permission": "bash", "pattern": "*", "action": "deny"}
TOUCH = [[call("bash", command="touch ran", description="Leave a mark")], [say("Done.")]]
TODO = call("todowrite", todos=[{"content": "x", "status": "completed", "priority": "low"}])
LAUNCH = call("task", description="Job", prompt="look", subagent_type="general")


async def tell(at: StageClient, where: str, prompt: str, tools: Mapping[str, bool] | None = None) -> None:
    body = {**text_prompt(prompt), **({"tools": tools} if tools is not None else {})}
    assert (await at.post(f"{where}/message", body)).status == 200


def ran(tmp_path: Path) -> bool:
    return (tmp_path / "project/ran").exists()


def offered(at: StageClient, number: int = -1) -> set[str]:
    return {tool.name for tool in at.stage.model.requests[number].tools}


@pytest.mark.spec("Z-04")
async def test_a_map_leaves_the_denials_of_its_session_alone(tmp_path: Path) -> None:
    script = {"first": [[say("Hello.")]], "second": TOUCH}
    async with serve_coding_project(tmp_path, script) as at:
        where = await create_session(at, tmp_path, permission=[NO_BASH])
        await tell(at, where, "first", {"webfetch": False})
        between = offered(at)
        await tell(at, where, "second")
        after = (await at.get(where)).json

    assert not ran(tmp_path)
    assert not {"bash", "webfetch"} & (between | offered(at))
    assert after["permission"] == [NO_BASH]
    assert after["tools"] == {"webfetch": False}


@pytest.mark.spec("Z-04")
async def test_true_in_a_map_lifts_no_denial_of_the_session(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path, {"go": TOUCH}) as at:
        where = await create_session(at, tmp_path, permission=[NO_BASH])
        await tell(at, where, "go", {"bash": True, "*": True})

    assert not ran(tmp_path)
    assert "bash" not in offered(at)


@pytest.mark.spec("Z-04")
@pytest.mark.parametrize("where", ["config", "agent"])
async def test_true_in_a_map_lifts_no_denial_of_configuration_or_agent(tmp_path: Path, where: str) -> None:
    own: Any = {"bash": "deny"}
    config: Any = (
        {"permission": own} if where == "config" else {"agent": {"build": AgentConfig(permission=own)}}
    )
    async with serve_coding_project(tmp_path, {"go": TOUCH}, **config) as at:
        await tell(at, await create_session(at, tmp_path), "go", {"bash": True})

    assert not ran(tmp_path)
    assert "bash" not in offered(at)


@pytest.mark.spec("Z-04")
async def test_true_in_a_map_stands_for_the_answer_to_an_ask(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path, {"go": TOUCH}, permission={"bash": "ask"}) as at:
        await tell(at, await create_session(at, tmp_path), "go", {"bash": True})

    assert ran(tmp_path)


@pytest.mark.spec("Z-04")
async def test_a_later_map_replaces_the_earlier_one_and_a_prompt_without_one_keeps_it(tmp_path: Path) -> None:
    script = {each: [[say("Ok.")]] for each in ("one", "two", "three", "four")}
    async with serve_coding_project(tmp_path, script) as at:
        where = await create_session(at, tmp_path)
        await tell(at, where, "one", {"bash": False})
        await tell(at, where, "two")
        kept = offered(at)
        await tell(at, where, "three", {"webfetch": False})
        replaced = offered(at)
        await tell(at, where, "four", {})
        after = (await at.get(where)).json

    assert "bash" not in kept
    assert "webfetch" in kept
    assert "bash" in replaced
    assert "webfetch" not in replaced | offered(at)
    assert "permission" not in after
    assert after["tools"] == {"webfetch": False}


@pytest.mark.spec("Z-04", "D-04")
async def test_a_map_lifts_no_denial_of_a_child(tmp_path: Path) -> None:
    script = {
        "go": [[LAUNCH], [say("Ok.")]],
        "look": [[say("Red.")]],
        "more": [[TODO, LAUNCH], [say("No.")]],
    }
    tools = {"todowrite": True, "todoread": True, "task": True, "question": True}
    worker = {"general": AgentConfig(mode="subagent", permission={"webfetch": "allow"})}
    async with serve_coding_project(tmp_path, script, agent=worker) as at:
        where = await create_session(at, tmp_path)
        await tell(at, where, "go")
        (child,) = (await at.get(f"{where}/children")).json
        below = f"/session/{child['id']}"
        await tell(at, below, "more", tools)
        after = (await at.get(below)).json
        todos = (await at.get(f"{below}/todo")).json
        grandchildren = (await at.get(f"{below}/children")).json

    assert after["permission"] == child["permission"]
    assert todos == []
    assert grandchildren == []
    assert not tools.keys() - {"question"} & offered(at)


@pytest.mark.spec("Z-04", "A-03")
async def test_a_child_may_do_no_more_than_the_map_of_its_parent_allows(tmp_path: Path) -> None:
    script = {"go": [[LAUNCH], [say("Ok.")]], "look": TOUCH}
    async with serve_coding_project(tmp_path, script) as at:
        await tell(at, await create_session(at, tmp_path), "go", {"bash": False})

    assert not ran(tmp_path)
    looking = [each for each in at.stage.model.requests if each.messages[0].text == "look"]  # type: ignore[union-attr]
    assert looking
    assert all("bash" not in {tool.name for tool in each.tools} for each in looking)


@pytest.mark.spec("Z-04")
async def test_a_fork_has_the_map_of_its_session(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path, {"hi": [[say("Hello.")]], "go": TOUCH}) as at:
        where = await create_session(at, tmp_path)
        await tell(at, where, "hi", {"bash": False})
        copy = (await at.post(f"{where}/fork")).json
        await tell(at, f"/session/{copy['id']}", "go")
        at.stage.model.requests.clear()  # two sessions begin alike, and go on differently

    assert copy["tools"] == {"bash": False}
    assert not ran(tmp_path)


@pytest.mark.spec("Z-04", "P-13")
async def test_an_import_keeps_the_map_but_its_grants_only_if_trusted(tmp_path: Path) -> None:
    async with serve_coding_project(tmp_path, {"hi": [[say("Hello.")]]}) as at:
        session_id = at.stage.session_id
        await tell(at, f"/session/{session_id}", "hi", {"bash": False, "webfetch": True})
        await export_files(at.stage.runtime, tmp_path / "files", session_id)

    done = await import_into_store(tmp_path / "other", tmp_path / "files")
    await import_into_store(tmp_path / "own", tmp_path / "files", trusted=True)
    async with open_other_store(tmp_path / "other") as (runtime, _):
        other = await runtime.session(session_id)
    async with open_other_store(tmp_path / "own") as (runtime, _):
        own = await runtime.session(session_id)

    assert other.tools == {"bash": False}
    assert own.tools == {"bash": False, "webfetch": True}
    assert "rules of the session that allow something were left out" in str(done)


@pytest.mark.spec("Z-04")
@pytest.mark.parametrize("how", ["agent", "command", "subtask", "fork", "child"])
async def test_no_kind_of_prompt_lifts_a_denial_of_the_session(tmp_path: Path, how: str) -> None:
    """With `true` in the map: said to another agent, by a command, to a copy, a task or a child."""
    agents = {
        "open": AgentConfig(mode="all", description="Works.", permission={"bash": "allow", "edit": "allow"})
    }
    commands = {"go": CommandConfig(template="go", agent="open", subtask=how == "subtask")}
    async with serve_coding_project(tmp_path, {"go": TOUCH}, agent=agents, command=commands) as at:
        where = await create_session(at, tmp_path, permission=[NO_BASH])
        if how == "fork":
            where = f"/session/{(await at.post(f'{where}/fork')).json['id']}"
        if how == "child":
            where = await create_session(at, tmp_path, parentID=where.removeprefix("/session/"))
        body = {**text_prompt("go"), "tools": {"*": True, "bash": True}, "agent": "open"}
        if how in {"command", "subtask"}:
            await tell(at, where, "hello", {"*": True, "bash": True})
            said = await at.post(f"{where}/command", {"command": "go", "arguments": ""})
        else:
            said = await at.post(f"{where}/message", body)
        at.stage.model.requests.clear()  # what is said to a copy begins as in the session it was made of

    assert said.status == 200
    assert not ran(tmp_path)


@pytest.mark.spec("Z-04")
async def test_a_denial_in_the_map_or_in_the_rules_overrides_the_other(tmp_path: Path) -> None:
    allow = {"permission": "bash", "pattern": "*", "action": "allow"}
    async with serve_coding_project(tmp_path, {"go": TOUCH, "again": TOUCH}) as at:
        mapped, ruled = (
            await create_session(at, tmp_path),
            await create_session(at, tmp_path, permission=[allow]),
        )
        await tell(at, mapped, "hello", {"bash": False})
        await at.request("PATCH", mapped, {"permission": [allow]})
        await tell(at, mapped, "go")
        await at.request("PATCH", ruled, {"permission": [NO_BASH]})
        await tell(at, ruled, "again", {"bash": True})
        at.stage.model.requests.clear()

    assert not ran(tmp_path)
