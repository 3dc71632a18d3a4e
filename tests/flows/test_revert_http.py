"""Undo, redo and diff over HTTP, in OpenCode's shapes."""

from pathlib import Path

import pytest

from asyncagents.config.config import Config
from asyncagents.llm.scripted import Script, call, say
from tests.support.git import create_repository
from tests.support.http.server import StageClient, serve_stage
from tests.support.project import REVERT_FILES, REVERT_SCRIPT, SHELL_TOOL, read_tree
from tests.support.tool import Gate


@pytest.mark.spec("X-01")
async def test_a_client_undoes_reads_the_diff_and_redoes(tmp_path: Path) -> None:
    root = tmp_path / "project"
    create_repository(root, REVERT_FILES)
    coding = Config(data_dir=tmp_path / "data")
    more = {"coding": coding, "directory": root, "undoes": True}
    async with serve_stage(tmp_path / "data", REVERT_SCRIPT, tools=[SHELL_TOOL], **more) as at:
        session = (await at.post(f"/session?directory={root}")).json
        where = f"/session/{session['id']}"
        await at.post(f"{where}/message", {"parts": [{"type": "text", "text": "go"}]})
        asked = (await at.get(f"{where}/message")).json[0]["info"]
        whole = (await at.get(f"{where}/diff")).json
        one = (await at.get(f"{where}/diff?messageID={asked['id']}")).json
        undone = await at.post(f"{where}/revert", {"messageID": asked["id"], "unknown": 1})
        after_undo = read_tree(root)
        redone = await at.post(f"{where}/unrevert")
    assert asked["summary"]["diffs"] == whole == one
    assert {each["file"]: each["status"] for each in whole} == {
        "a.txt": "modified", "b.txt": "added", "c.txt": "deleted"
    }  # fmt: skip
    assert set(whole[0]) == {"file", "patch", "additions", "deletions", "status"}
    assert undone.status == 200
    assert redone.status == 200
    assert undone.json["revert"]["messageID"] == asked["id"]
    assert {"snapshot", "diff"} < set(undone.json["revert"])
    assert undone.json["summary"] == {"additions": 2, "deletions": 2, "files": 3}
    assert after_undo == REVERT_FILES
    assert "revert" not in redone.json
    assert read_tree(root) != REVERT_FILES


async def _refusals(at: StageClient, where: str, asked: str) -> list[int]:
    bodies: tuple[dict[str, object], ...] = (
        {"messageID": asked},
        {},
        {"messageID": 1},
        {"messageID": "msg_none"},
    )
    return [(await at.post(f"{where}/revert", body)).status for body in bodies]


@pytest.mark.spec("X-01")
async def test_an_invalid_undo_or_one_during_work_is_refused(tmp_path: Path) -> None:
    gate = Gate("gate")
    script: Script = {"go": [[call("gate")], [say("Through.")]]}
    async with serve_stage(tmp_path, script, tools=[gate.tool], undoes=True) as at:
        session = (await at.post("/session")).json
        where = f"/session/{session['id']}"
        await at.post(f"{where}/prompt_async", {"parts": [{"type": "text", "text": "go"}]})
        await gate.until_started()
        asked = (await at.get(f"{where}/message")).json[0]["info"]["id"]
        busy = await _refusals(at, where, asked)
        redo = (await at.post(f"{where}/unrevert")).status
        gone = [
            (await at.post(f"/session/ses_none/{what}", {"messageID": asked})).status
            for what in ("revert", "unrevert")
        ]
        diff = (await at.get("/session/ses_none/diff")).status
        gate.go.set()
        await at.stage.runtime.wait(session["id"])
        rest = await _refusals(at, where, asked)
        said = (await at.get(where)).json["revert"]
    assert busy == [409, 400, 400, 409]
    assert redo == 409
    assert gone == [404, 404]
    assert diff == 404
    assert rest == [200, 400, 400, 404]
    assert "no snapshots" in said["note"]
