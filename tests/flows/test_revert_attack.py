"""Parts that somebody else wrote, by import or over HTTP, name no options of git and no files of its own."""

from pathlib import Path
from typing import Any

import pytest

from asyncagents.config.config import Config
from tests.support.git import create_repository
from tests.support.http.server import StageClient, serve_stage
from tests.support.project import REVERT_FILES, REVERT_SCRIPT, SHELL_TOOL, read_tree

NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without a file, which every git knows."""


async def _worked(at: StageClient, root: Path) -> tuple[str, list[dict[str, Any]]]:
    session = (await at.post(f"/session?directory={root}")).json
    where = f"/session/{session['id']}"
    await at.post(f"{where}/message", {"parts": [{"type": "text", "text": "go"}]})
    return where, (await at.get(f"{where}/message")).json


async def _change(
    at: StageClient, where: str, said: list[dict[str, Any]], kind: str, **fields: object
) -> None:
    for part in (part for each in said for part in each["parts"] if part["type"] == kind):
        path = f"{where}/message/{part['messageID']}/part/{part['id']}"
        assert (await at.request("PATCH", path, part | fields)).status == 200


@pytest.mark.spec("X-01")
@pytest.mark.parametrize("kind", ["step-start", "step-finish"])
async def test_a_snapshot_name_is_not_passed_to_git_as_an_option(tmp_path: Path, kind: str) -> None:
    root, victim = tmp_path / "project", tmp_path / "victim"
    create_repository(root, REVERT_FILES)
    victim.write_text("precious")
    more = {"coding": Config(data_dir=tmp_path / "data"), "directory": root, "undoes": True}
    async with serve_stage(tmp_path / "data", REVERT_SCRIPT, tools=[SHELL_TOOL], **more) as at:
        where, said = await _worked(at, root)
        await _change(at, where, said, kind, snapshot=f"--output={victim}")
        looked = await at.get(f"{where}/diff")
        undone = await at.post(f"{where}/revert", {"messageID": said[0]["info"]["id"]})
    assert victim.read_text() == "precious"
    assert looked.status == 200
    assert undone.status == 200


@pytest.mark.spec("X-01")
async def test_an_undo_does_not_change_files_of_git(tmp_path: Path) -> None:
    root = tmp_path / "project"
    create_repository(root, REVERT_FILES)
    before = (root / ".git/config").read_bytes()
    more = {"coding": Config(data_dir=tmp_path / "data"), "directory": root, "undoes": True}
    async with serve_stage(tmp_path / "data", REVERT_SCRIPT, tools=[SHELL_TOOL], **more) as at:
        where, said = await _worked(at, root)
        await _change(at, where, said, "patch", hash=NOTHING, files=[str(root / ".git/config")])
        undone = await at.post(f"{where}/revert", {"messageID": said[0]["info"]["id"]})
    assert (root / ".git/config").read_bytes() == before
    assert ".git/config" in undone.json["revert"]["note"]


@pytest.mark.spec("X-01")
async def test_an_undo_removes_no_file_that_a_redo_could_not_restore(tmp_path: Path) -> None:
    root = tmp_path / "project"
    create_repository(root, {**REVERT_FILES, ".gitignore": ".env\n"})
    (root / ".env").write_text("KEY=1\n")
    more = {"coding": Config(data_dir=tmp_path / "data"), "directory": root, "undoes": True}
    async with serve_stage(tmp_path / "data", REVERT_SCRIPT, tools=[SHELL_TOOL], **more) as at:
        where, said = await _worked(at, root)
        await _change(at, where, said, "patch", hash=NOTHING, files=[str(root / ".env")])
        undone = await at.post(f"{where}/revert", {"messageID": said[0]["info"]["id"]})
    assert (root / ".env").read_text() == "KEY=1\n"
    assert ".env" in undone.json["revert"]["note"]


@pytest.mark.spec("X-01")
async def test_an_undo_without_its_snapshots_changes_messages_and_no_files(
    tmp_path: Path,
) -> None:
    root = tmp_path / "project"
    create_repository(root, REVERT_FILES)
    more = {"coding": Config(data_dir=tmp_path / "data"), "directory": root, "undoes": True}
    async with serve_stage(tmp_path / "data", REVERT_SCRIPT, tools=[SHELL_TOOL], **more) as at:
        where, said = await _worked(at, root)
        for number, kind in enumerate(("step-start", "step-finish")):
            await _change(at, where, said, kind, snapshot=f"{number:040x}")
        await _change(at, where, said, "patch", hash=f"{2:040x}")
        left = read_tree(root)
        looked = await at.get(f"{where}/diff")
        undone = await at.post(f"{where}/revert", {"messageID": said[0]["info"]["id"]})
        redone = await at.post(f"{where}/unrevert")
    assert looked.status == 200
    assert looked.json == []
    assert undone.status == 200
    assert redone.status == 200
    assert "a.txt" in undone.json["revert"]["note"]
    assert "revert" not in redone.json
    assert read_tree(root) == left
