"""Commands on data that a server works on: they know of it, and leave the work to it."""

import signal
from pathlib import Path

import pytest

from asyncagents import SessionId
from asyncagents.domain.conversation.status import Idle
from tests.support.process.command_line import build_slow_replies, open_desk, read_until, wait_for_exit
from tests.support.process.script import (
    ASK_EDITS,
    DEPLOY,
    FAN_OUT,
    list_task_trees,
    run_until_parked,
    script_step,
    script_steps,
    write_use,
)
from tests.support.process.server import open_desk_server


@pytest.mark.spec("H-02")
async def test_a_second_server_is_refused_before_it_opens_anything(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _), open_desk_server(desk) as server:
        owners = sorted((desk.data / "owners").iterdir())
        second = await desk.run("serve", "--port", "0")
        after = sorted((desk.data / "owners").iterdir())
        told = await server.end()
        third = await desk.run("doctor")

    assert second.code == 4
    assert second.out == ""
    assert f"a server already runs on {desk.data} at {server.url}" in second.err
    assert after == owners
    assert told == "stopping\n"
    assert "none runs here" in third.out


async def test_doctor_names_the_server(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _), open_desk_server(desk) as server:
        told = await desk.run("doctor")

    assert f"{server.url}, process {server.process.pid}, runs all sessions" in told.out


async def test_a_result_is_taken_up_by_the_server(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_step(DEPLOY)) as (desk, _):
        _, session_id, (call_id,) = await run_until_parked(desk)
        async with open_desk_server(desk) as server:
            given = await desk.run("submit", call_id, "v2 is live")
            async with desk.look() as runtime:
                status = await runtime.wait(session_id)
            text = (await desk.run("show", session_id)).out

    assert given.code == 0
    assert isinstance(status, Idle) is True
    assert given.err == f"accepted: deploy of session {session_id}; the server at {server.url} runs it\n"
    assert "Done." in text


async def test_submit_with_run_shows_the_work_of_the_server(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_step(DEPLOY)) as (desk, _):
        _, _, (call_id,) = await run_until_parked(desk)
        async with open_desk_server(desk):
            given = await desk.run("submit", call_id, "v2 is live", "--run", "--json")

    assert given.code == 0
    assert given.json["text"] == "Done."
    assert given.json["status"] == "done"


async def test_answer_shows_the_following_work_of_the_server(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "one"), write_use("b.txt", "two"))) as (
        desk,
        _,
    ):
        desk.configure(permission=ASK_EDITS)
        first = await desk.run("run", "go")
        async with open_desk_server(desk) as server:
            [ask] = (await desk.run("asks", "--json")).json["asks"]
            second = await desk.run("answer", ask["id"], "once")
            [ask] = (await desk.run("asks", "--json")).json["asks"]
            third = await desk.run("answer", ask["id"], "once", "--detach")
            async with desk.look() as runtime:
                await runtime.wait(ask["session"])
            shown = await desk.run("run", "--continue")
        made = [(desk.project / name).read_text() for name in ("a.txt", "b.txt")]

    assert first.code == 3
    assert second.code == 3
    assert third.code == 0
    assert "write asks for the permission 'edit' (b.txt)" in second.err
    assert third.err == f"answered; the server at {server.url} runs session {ask['session']}\n"
    assert shown.code == 0
    assert shown.out == "Done.\n"
    assert made == ["one", "two"]


async def test_a_follow_up_is_run_by_the_server(tmp_path: Path) -> None:
    async with open_desk(tmp_path, FAN_OUT) as (desk, _), open_desk_server(desk) as server:
        ran = await desk.run("run", "Fan out", "--json")
        [root] = await list_task_trees(desk)
        task_id = root["tasks"][0]["session"]
        resumed = await desk.run("resume", task_id, "And more?", "--key", "k")
        left = await desk.run("resume", task_id, "And more?", "--key", "k", "--detach")
        watched = await desk.run("tasks", "--watch", "--json")

    assert ran.code == 0
    assert ran.json["text"] == "All are in."
    assert resumed.code == 0
    assert resumed.out == "It is 2.\n"
    assert f"sent; the server at {server.url} runs it" in left.err
    assert watched.code == 0


async def test_a_cancel_from_elsewhere_ends_the_work_of_the_server(tmp_path: Path) -> None:
    async with (
        open_desk(tmp_path, {"go": build_slow_replies("one two three four")}) as (desk, provider),
        open_desk_server(desk),
    ):
        run = await desk.start("run", "go")
        await read_until(run, "one two")
        [session] = (await desk.run("sessions", "--json")).json
        cancelled = await desk.run("cancel", session["id"])
        ran = await wait_for_exit(run)

    assert cancelled.code == 0
    assert ran.code == 5
    assert provider.disconnects == 1


async def test_work_that_a_server_will_take_is_not_shown_as_left(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        begun = await desk.run("run", "--detach", "go")
        left = await desk.run("sessions")
        async with open_desk_server(desk) as server:
            async with desk.look() as runtime:
                await runtime.wait(SessionId(begun.out.strip()))
            server.process.send_signal(signal.SIGSTOP)
            async with desk.look() as runtime:
                await runtime.begin("go", directory=desk.project)
            taken = await desk.run("sessions")
            doctor = await desk.run("doctor")
            server.process.send_signal(signal.SIGCONT)

    assert left.out.split()[1] == "left"
    assert taken.out.split()[1] == "busy"
    assert "work that no process does" not in doctor.out
