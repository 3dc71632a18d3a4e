"""`asyncagents export` and `asyncagents import`: as people use them, and when they are killed."""

import json
from pathlib import Path

import pytest

from asyncagents.archive.export import export_to
from asyncagents.testing.provider import Reply
from tests.support.process.command_line import Desk, open_desk, read_until, wait_for_exit
from tests.support.soak import some_of
from tests.support.transfer import RECORDED, ROOT_ID, read_files, write_json

SESSIONS = 40


@pytest.mark.spec("P-13")
async def test_sessions_are_exported_and_imported_elsewhere(tmp_path: Path) -> None:
    async with open_desk(tmp_path, otherwise=Reply(text="Hi.")) as (desk, _):
        await desk.run("run", "Hello")
        alone = await desk.run("export")
        nowhere = await desk.run("export", "ses_none")
        shown = await desk.run("sessions", "--json")
        (session,) = shown.json
        one = await desk.run("export", session["id"][:20])
        all_of_them = await desk.run("export", "--to", "out")
        again = await desk.run("export", "--to", "out")
        there = {"ASYNCAGENTS_DATA_DIR": str(tmp_path / "there")}
        empty = await desk.run("export", "--to", "none", env=there)
        brought = await desk.run("import", "out", env=there)
        second = await desk.run("import", "out", env=there)
        went_on = await desk.run("run", "-c", "And?", env=there)

    assert alone.code == 2
    assert nowhere.code == 2
    assert empty.code == 2
    assert again.code == 2
    assert "exactly one SESSION is required" in alone.err
    assert "holds another export" in again.err
    assert not (desk.project / "none").exists()
    assert one.json["info"]["id"] == session["id"]
    assert [message["info"]["role"] for message in one.json["messages"]] == ["user", "assistant"]
    assert all_of_them.code == 0
    assert all_of_them.out == ""
    assert brought.out == f"{session['id']}  imported  {desk.project}  Hello\n"
    assert "already there" in second.out
    assert brought.code == 0
    assert second.code == 0
    assert went_on.out == "Hi.\n"


@pytest.mark.spec("P-13")
async def test_opencodes_session_goes_on_in_this_project(tmp_path: Path) -> None:
    async with open_desk(tmp_path, otherwise=Reply(text="On we go.")) as (desk, provider):
        homeless = json.loads(RECORDED.read_text())
        homeless["info"]["directory"] = ""
        for message in homeless["messages"]:
            message["info"].pop("path", None)
        write_json(desk.project / "homeless.json", homeless)
        refused = await desk.run("import", "homeless.json")
        brought = await desk.run("import", str(RECORDED), "--into", ".")
        went_on = await desk.run("run", "-c", "And?", "--model", "local/m")
        sent = provider.requests[-1]

    assert refused.code == 1
    assert refused.out == ""
    assert "--into DIR" in refused.err
    assert brought.code == 0
    assert brought.out.split()[:2] == [ROOT_ID, "imported"]
    assert went_on.code == 0
    assert went_on.out == "On we go.\n"
    assert "Fake summary of the conversation." in json.dumps(sent.body)


def many(folder: Path) -> None:
    """Sessions of which each has a child."""
    for number in range(SESSIONS):
        session_id = f"ses_{number:04}"
        parent = {"parentID": f"ses_{number - 1:04}"} if number % 2 else {}
        info = {"id": session_id, "directory": "/home/ada/shop", "time": {"created": 1}, **parent}
        write_json(folder / f"session/p/{session_id}.json", info)
        for each in range(20):
            message_id = f"msg_{number:04}{each:04}"
            said_then = {"role": "user", "time": {"created": each}}
            write_json(folder / f"message/{session_id}/{message_id}.json", said_then)
            text = {"type": "text", "text": f"{number} {each} " * 200}
            write_json(folder / f"part/{message_id}/prt_{number:04}{each:04}.json", text)


def owner(name: str) -> str:
    """Of which session a file of an export is."""
    number = name.rpartition("/")[2].removesuffix(".json").partition("_")[2][:4]
    return f"ses_{number}"


async def snapshot(desk: Desk, folder: Path) -> dict[str, bytes]:
    async with desk.look() as runtime:
        await export_to(runtime, folder)
    return {name: body for name, body in read_files(folder).items() if "_" in name.rpartition("/")[2]}


@pytest.mark.spec("P-13")
@pytest.mark.parametrize("after", some_of([7, 0, 23], 1))
async def test_an_import_that_is_killed_leaves_whole_sessions_and_is_finished_later(
    tmp_path: Path, after: int
) -> None:
    many(tmp_path / "source")
    async with open_desk(tmp_path / "desk") as (desk, _):
        process = await desk.start("import", str(tmp_path / "source"))
        await read_until(process, f"ses_{after:04}")
        process.kill()
        await wait_for_exit(process)
        left = await snapshot(desk, tmp_path / "left")
        finished = await desk.run("import", str(tmp_path / "source"))
        whole = await snapshot(desk, tmp_path / "whole")

    there = {owner(name) for name in left}
    assert left == {name: body for name, body in whole.items() if owner(name) in there}
    assert f"ses_{after:04}" in there
    assert finished.code == 0
    assert len(finished.out.splitlines()) == SESSIONS
    assert finished.out.count("already there") == len(there)
