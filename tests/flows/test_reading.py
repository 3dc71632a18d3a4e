"""What OpenCode's clients read of a directory: agents, configuration, providers, projects; never a key."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncagents.config.env import system_environment
from asyncagents.config.trust import trust_project
from tests.support.git import commit_repository, run_git, write_files
from tests.support.home import PROVIDERS, SECRET_KEY, SKILL, make_home, root
from tests.support.http.server import serve_delegation, serve_project
from tests.support.tool import ECHO

__all__ = ["root"]

RECORDED = Path(__file__).parent.parent / "fixtures" / "opencode" / "reading-1.18.33.json"
"""Keys and types of what the real server answers to each, with the project of `recorded_project`."""
KINDS = {bool: "boolean", int: "number", float: "number", str: "string"}


def wrong(wanted: Any, told: Any, path: str = "") -> list[str]:
    """Where an answer lacks what the real one has."""
    match wanted:
        case {"*": each}:
            return [what for key, below in told.items() for what in wrong(each, below, f"{path}.{key}")]
        case dict():
            missing = [f"{path}.{key} is missing" for key in wanted if key not in told]
            found = [wrong(wanted[key], told[key], f"{path}.{key}") for key in wanted if key in told]
            return [*missing, *(what for each in found for what in each)]
        case list():
            if not isinstance(told, list):
                return [f"{path} is no list"]
            return [what for item in told for what in wrong(wanted[0], item, f"{path}[]")] if wanted else []
        case "any":
            return []
        case _:
            return [] if KINDS.get(type(told)) == wanted else [f"{path} is {told!r}, not a {wanted}"]


def nulls(told: Any) -> bool:
    match told:
        case dict():
            return any(nulls(below) for below in told.values())
        case list():
            return any(nulls(below) for below in told)
        case _:
            return told is None


def recorded_project(root: Path) -> None:
    write_files(root, {"b.bin": b"\0\1b", "new.txt": "new\n", ".asyncagents/skills/tidy/SKILL.md": SKILL})
    with (root / "src/a.py").open("a") as file:
        file.write("# more\n")
    (root / "asyncagents.json").write_text(
        json.dumps(
            {
                "command": {"shout": {"template": "Shout $1", "description": "x"}},
                "mcp": {
                    "off": {"type": "local", "command": ["true"], "enabled": False},
                    "bad": {"type": "local", "command": ["/nope/x"]},
                },
            }
        )
    )
    trust_project(system_environment(), root)


@pytest.mark.spec("X-01")
async def test_every_answer_has_the_keys_and_types_of_the_real_server(tmp_path: Path, root: Path) -> None:
    recorded_project(root)
    recorded = msgspec.json.decode(RECORDED.read_bytes())
    async with serve_project(tmp_path, root) as at:
        answers = {path: await at.json(path) for path in recorded}

    assert [what for path, wanted in recorded.items() for what in wrong(wanted, answers[path], path)] == []
    schemas = "/experimental/tool?provider=fake&model=fake"
    assert [path for path, answer in answers.items() if nulls(answer) and path != schemas] == []
    assert answers["/mcp"]["off"] == {"status": "disabled"}
    assert answers["/mcp"]["bad"]["status"] == "failed"
    assert [each["name"] for each in answers["/skill"]] == ["tidy"]
    assert answers["/skill"][0]["content"] == "Put things away."
    assert "shout" in {each["name"] for each in answers["/command"]}
    assert {"read", "bash", "skill"} <= set(answers["/experimental/tool/ids"])


@pytest.mark.spec("X-01")
async def test_no_reading_route_reveals_a_key(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_home(tmp_path / "other", monkeypatch, {**PROVIDERS, "enabled_providers": ["fake", "openai"]})
    monkeypatch.setenv("OPENAI_API_KEY", SECRET_KEY)
    (root / "asyncagents.json").write_text(
        json.dumps(
            {
                "mcp": {
                    "kit": {"type": "remote", "url": f"http://u:{SECRET_KEY}@127.0.0.1:9/?token={SECRET_KEY}"}
                },
                "agent": {"spy": {"options": {"apiKey": SECRET_KEY}, "prompt": "Look."}},
                "plugin": [["./x.py", {"apiKey": SECRET_KEY}]],
            }
        )
    )
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "whoever may read its files reads what stands in them")
    trust_project(system_environment(), root)
    async with serve_project(tmp_path, root) as at:
        document = await at.json("/doc")
        paths = [
            path
            for path, methods in document["paths"].items()
            if "get" in methods and "{" not in path and "event" not in path
        ]
        told = {path: (await at.get(path)).text for path in paths}
        providers = json.loads(told["/config/providers"])

    assert len(paths) > 30
    assert [path for path, text in told.items() if SECRET_KEY in text] == []
    assert {each["id"]: each["source"] for each in providers["providers"]} == {
        "fake": "config",
        "openai": "env",
    }
    assert providers["default"]["fake"] == "fake"
    assert providers["providers"][0]["models"]["fake"]["options"] == {"effort": "low"}


@pytest.mark.spec("X-01")
async def test_agents_come_with_the_default_first_and_the_rules_that_count(
    tmp_path: Path, root: Path
) -> None:
    (root / "asyncagents.json").write_text(
        json.dumps({"default_agent": "plan", "permission": {"bash": {"rm *": "deny"}}})
    )
    async with serve_project(tmp_path, root) as at:
        agents = await at.json("/agent")

    names = [each["name"] for each in agents]
    assert names == ["plan", *sorted(names[1:])]
    assert {"build", "compaction", "explore", "general", "title"} < set(names)
    assert [each["name"] for each in agents if each.get("hidden")] == ["compaction", "title"]
    build = next(each for each in agents if each["name"] == "build")
    assert {"permission": "bash", "pattern": "rm *", "action": "deny"} in build["permission"]


@pytest.mark.spec("X-01")
async def test_one_server_reads_each_directory_by_itself(tmp_path: Path, root: Path) -> None:
    other = tmp_path / "other dir"
    commit_repository(other, {"asyncagents.json": '{"default_agent": "plan"}'})
    run_git(other, "switch", "-q", "-c", "side")
    encoded = str(other).replace(" ", "%20")
    async with serve_project(tmp_path, root) as at:
        by_query = await at.json(f"/agent?directory={encoded}")
        by_header = (await at.get("/agent", headers={"x-opencode-directory": encoded})).json
        own = await at.json("/agent")
        paths = [(await at.json(f"/path{query}")) for query in ("", f"?directory={encoded}")]
        branches = [(await at.json(f"/vcs{query}")) for query in ("", f"?directory={encoded}")]
        projects = [await at.json(f"/project/current{query}") for query in ("", f"?directory={encoded}")]
        session = await at.runtime.create_session(directory=other)
        listed = await at.json("/project")
        lies = await at.json(f"/project/{projects[1]['id']}/directories")
        nowhere = await at.get("/project/nope/directories")

    assert [by_query[0]["name"], by_header[0]["name"], own[0]["name"]] == ["plan", "plan", "build"]
    assert [each["directory"] for each in paths] == [str(root), str(other)]
    assert paths[0]["state"] == str(tmp_path / "data")
    assert branches == [
        {"branch": "main", "default_branch": "main"},
        {"branch": "side", "default_branch": "main"},
    ]
    assert [each["worktree"] for each in projects] == [str(root), str(other)]
    assert session.project_id == projects[1]["id"]
    assert {each["id"] for each in listed} == {each["id"] for each in projects}
    assert lies == [{"directory": str(other)}]
    assert nowhere.status == 404


async def test_an_invalid_configuration_file_is_named_in_the_response(tmp_path: Path, root: Path) -> None:
    async with serve_project(tmp_path, root) as at:
        other = tmp_path / "broken"
        commit_repository(other, {"asyncagents.json": '{"model": 3}'})
        told = [
            await at.get(f"{path}?directory={other}") for path in ("/agent", "/config", "/command", "/mcp")
        ]

    assert [each.status for each in told] == [400] * 4
    assert all(str(other / "asyncagents.json") in each.json["data"]["message"] for each in told), told


async def test_routes_for_keys_and_logins_are_refused_with_advice(tmp_path: Path, root: Path) -> None:
    async with serve_project(tmp_path, root) as at:
        told = [
            await at.request("PUT", "/auth/fake", {"type": "api", "key": SECRET_KEY}),
            await at.request("DELETE", "/auth/fake"),
            await at.request("POST", "/provider/fake/oauth/authorize", {"method": 0}),
            await at.request("POST", "/provider/fake/oauth/callback", {"method": 0, "code": SECRET_KEY}),
        ]
        upgrade = await at.request("POST", "/global/upgrade", {"target": "2"})

    assert [each.status for each in told] == [400] * 4
    assert all("restart it" in each.json["data"]["message"] for each in told)
    assert not any(SECRET_KEY in each.text for each in told)
    assert upgrade.status == 400
    assert upgrade.json["success"] is False


async def test_a_client_writes_one_line_into_the_log(
    tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    body = {
        "service": "s",
        "level": "warn",
        "message": "one\nERROR two\x1b[2J",
        "extra": {"a": "\n"},
        "more": 1,
    }
    async with serve_project(tmp_path, root) as at:
        with caplog.at_level(logging.WARNING):
            told = await at.request("POST", "/log", body)
            odd = await at.request("POST", "/log", {**body, "level": "shout"})
    lines = [record.getMessage() for record in caplog.records if "action=client_log" in record.getMessage()]

    assert told.status == 200
    assert told.json is True
    assert odd.status == 400
    assert len(lines) == 1
    assert lines[0].isprintable()


@pytest.mark.spec("X-01")
async def test_projects_are_named_and_begun_with_git(tmp_path: Path, root: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    async with serve_project(tmp_path, root) as at:
        where = f"/project/{(await at.json('/project/current'))['id']}"
        named = await at.request("PATCH", where, {"name": "Mine", "icon": {"color": "red"}, "other": 1})
        more = await at.request("PATCH", where, {"commands": {"start": "make"}})
        long = await at.request("PATCH", where, {"name": "x" * 300})
        gone = await at.request("PATCH", "/project/nope", {"name": "Mine"})
        begun = await at.request("POST", f"/project/git/init?directory={plain}")
        again = await at.request("POST", f"/project/git/init?directory={plain}")
        nowhere = await at.request("POST", f"/project/git/init?directory={tmp_path}/none")
    async with serve_project(tmp_path, root) as at:
        later = await at.json("/project/current")

    assert named.json["name"] == "Mine"
    assert named.json["icon"] == {"color": "red"}
    assert more.json["name"] == "Mine"
    assert more.json["commands"] == {"start": "make"}
    assert later["name"] == "Mine"
    assert [each.status for each in (long, gone, begun, again, nowhere)] == [400, 404, 200, 200, 400]
    assert begun.json == again.json
    assert begun.json["vcs"] == "git"


@pytest.mark.spec("X-01")
async def test_a_runtime_with_a_model_object_lists_its_agent_model_and_tools(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, {}, ECHO) as at:
        ask = {path: (await at.request("GET", path, headers=at.authorization)).json for path in BARE}

    assert [each["name"] for each in ask["/agent"]] == ["build"]
    assert ask["/config/providers"]["default"] == {"scripted": "scripted"}
    assert ask["/provider"]["connected"] == ["scripted"]
    assert ask["/config"]["model"] == "scripted/scripted"
    assert "echo" in ask["/experimental/tool/ids"]
    assert ask["/mcp"] == {}
    assert ask["/skill"] == []


BARE = ("/agent", "/config/providers", "/provider", "/config", "/experimental/tool/ids", "/mcp", "/skill")


async def test_many_readers_at_once_are_all_answered(tmp_path: Path, root: Path) -> None:
    async with serve_project(tmp_path, root) as at:
        paths = ["/agent", "/config", "/config/providers", "/path", "/vcs/status", "/find/file?query=a"] * 5
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(at.json(path)) for path in paths]

    assert len({json.dumps(each.result()) for each in asked}) == 6


async def test_the_list_of_tools_requires_a_model(tmp_path: Path, root: Path) -> None:
    async with serve_project(tmp_path, root) as at:
        refused = await at.get("/experimental/tool?provider=fake")
        tools = await at.json("/experimental/tool?provider=fake&model=fake")

    assert refused.status == 400
    assert all(tool["parameters"]["type"] == "object" for tool in tools)


def test_the_comparison_finds_missing_keys_and_wrong_types() -> None:
    assert wrong({"a": "string", "b": [{"c": "number"}]}, {"a": 1, "b": [{}]}) == [
        ".a is 1, not a string",
        ".b[].c is missing",
    ]
