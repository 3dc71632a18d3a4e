"""The configuration changed over HTTP: whole or not at all, and nothing that would not count."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import Config
from asyncagents.config.env import system_environment
from asyncagents.config.trust import trust_project
from tests.support.git import write_files
from tests.support.home import SECRET_KEY, root
from tests.support.http.client import Response
from tests.support.http.server import ProjectClient, serve_project, serve_stage

__all__ = ["root"]


async def patch(at: ProjectClient, change: Any, where: str = "/config") -> Response:
    return await at.request("PATCH", where, change)


@pytest.mark.spec("X-01")
async def test_a_change_is_written_and_takes_effect_at_once(tmp_path: Path, root: Path) -> None:
    trust_project(system_environment(), root)
    file = root / "asyncagents.json"
    write_files(root, {"asyncagents.json": '{"permission": {"bash": "ask"}, "instructions": ["a.md"]}'})
    file.chmod(0o640)
    async with serve_project(tmp_path, root) as at:
        before = await at.json("/command")
        change = {
            "$schema": "x",
            "command": {"shout": {"template": "Shout!"}},
            "permission": {"edit": "deny"},
        }
        told = await patch(at, change)
        after = await at.json("/command")
        config = await at.json("/config")
        everywhere = await patch(at, {"default_agent": "plan"}, "/global/config")
        agents = await at.json("/agent")

    assert told.status == 200
    assert told.json == {**config, "model": "fake/fake"}
    assert config["permission"] == {"bash": "ask", "edit": "deny"}
    assert [each["name"] for each in after] == [*(each["name"] for each in before), "shout"]
    assert json.loads(file.read_text()) == {
        "permission": {"bash": "ask", "edit": "deny"},
        "instructions": ["a.md"],
        "command": {"shout": {"template": "Shout!"}},
    }
    assert file.stat().st_mode & 0o777 == 0o640
    assert everywhere.json["default_agent"] == "plan"
    assert SECRET_KEY not in everywhere.text
    assert agents[0]["name"] == "plan"
    assert [name for name in os.listdir(root) if name.startswith(".asyncagents.json-")] == []


LISTS: tuple[Any, ...] = ([], "x")
REFUSED: dict[str, Any] = {
    "read when the server starts": {"provider": {"x": {"npm": "y"}}},
    "changes nothing in asyncagents": {"theme": "dark"},
    "is a redacted secret": {"instructions": ["***"]},
    "refers to a variable or a file": {"agent": {"x": {"prompt": "{env:OPENAI_API_KEY}"}}},
    "refers to a file": {"agent": {"x": {"prompt": "{file:/etc/passwd}"}}},
    "must be a string": {"model": 3},
    "has no template": {"command": {"x": {"description": "y"}}},
    "which cannot be one": {"default_agent": "nobody"},
    "must be written as provider/model": {"model": "fake"},
}


@pytest.mark.spec("X-01")
async def test_an_invalid_or_ineffective_change_is_refused_and_changes_nothing(
    tmp_path: Path, root: Path
) -> None:
    trust_project(system_environment(), root)
    text = '{"permission":{"bash":"ask"}}'
    write_files(root, {"asyncagents.json": text})
    async with serve_project(tmp_path, root) as at:
        told = {why: await patch(at, change) for why, change in REFUSED.items()}
        lists = [await patch(at, change) for change in LISTS]
        config = await at.json("/config")

    assert {why: each.status for why, each in told.items()} == dict.fromkeys(REFUSED, 400)
    words = {why: each.json["data"]["message"] for why, each in told.items()}
    assert [why for why in REFUSED if why.split(" a ")[0] not in words[why]] == []
    assert [each.status for each in lists] == [400, 400]
    assert (root / "asyncagents.json").read_text() == text
    assert "default_agent" not in config


async def test_a_new_file_is_removed_again_if_the_change_is_invalid(tmp_path: Path, root: Path) -> None:
    async with serve_project(tmp_path, root) as at:
        wrong = await patch(at, {"default_agent": "nobody"})
        left = (root / "asyncagents.json").exists()
        empty = await patch(at, {})
        still = (root / "asyncagents.json").exists()
        right = await patch(at, {"default_agent": "plan"})

    assert wrong.status == 400
    assert left is False
    assert empty.status == 200
    assert still is False
    assert right.status == 200
    assert (root / "asyncagents.json").stat().st_mode & 0o777 == 0o600


async def test_an_untrusted_project_accepts_only_changes_that_take_effect(tmp_path: Path, root: Path) -> None:
    async with serve_project(tmp_path, root) as at:
        tighter = await patch(at, {"permission": {"bash": "deny"}})
        looser = await patch(at, {"permission": {"external_directory": "allow"}})
        server = await patch(at, {"mcp": {"x": {"type": "local", "command": ["touch", "/tmp/x"]}}})

    assert [each.status for each in (tighter, looser, server)] == [200, 400, 400]
    assert "asyncagents trust" in server.json["data"]["message"]


async def test_a_file_with_comments_and_a_link_are_not_overwritten(tmp_path: Path, root: Path) -> None:
    write_files(root, {"asyncagents.jsonc": '{\n  // mine\n  "default_agent": "plan",\n}\n'})
    other = tmp_path / "other"
    write_files(other, {"real.json": "{}"})
    (other / "asyncagents.json").symlink_to("real.json")
    async with serve_project(tmp_path, root) as at:
        comments = await patch(at, {"permission": {"bash": "deny"}})
        link = await patch(at, {"permission": {"bash": "deny"}}, f"/config?directory={other}")

    assert comments.status == 400
    assert ("comments" in comments.json["data"]["message"]) is True
    assert link.status == 400
    assert ("is a link" in link.json["data"]["message"]) is True
    assert (root / "asyncagents.jsonc").read_text().startswith("{\n  // mine")
    assert (other / "real.json").read_text() == "{}"


async def test_changes_at_once_are_all_kept(tmp_path: Path, root: Path) -> None:
    names = [f"tool{number}" for number in range(12)]
    async with serve_project(tmp_path, root) as at:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(patch(at, {"permission": {name: "deny"}}))
        rules = (await at.json("/config"))["permission"]

    assert set(names) <= set(rules)


async def test_no_file_is_written_where_the_runtime_reads_none(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home" / ".config" / "asyncagents" / "asyncagents.json"
    before = home.read_text()
    told = []
    ways: tuple[dict[str, Any], ...] = ({}, {"coding": Config(data_dir=tmp_path / "data")})
    for more in ways:
        async with serve_stage(tmp_path / "data", {}, **more) as at:
            told += [
                await at.request("PATCH", path, {"default_agent": "plan"})
                for path in ("/config", "/global/config")
            ]
            told.append(await at.get("/config"))

    assert [each.status for each in told] == [400, 400, 200] * 2
    assert told[-1].json["model"] == "scripted/scripted"
    assert home.read_text() == before
    assert not (tmp_path / "data" / "asyncagents.json").exists()
