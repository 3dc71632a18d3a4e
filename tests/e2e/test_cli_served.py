"""Commands on data that a server works on: they know of it, and leave the work to it."""

from pathlib import Path

import pytest

from asyncagents.domain.status import Idle
from tests.e2e.cli_kit import open_desk
from tests.e2e.serve_kit import serving
from tests.e2e.test_cli_pending import DEPLOY, parked, script


@pytest.mark.spec("H-02")
async def test_a_second_server_is_refused_before_it_opens_anything(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _), serving(desk) as server:
        owners = sorted((desk.data / "owners").iterdir())
        second = await desk.run("serve", "--port", "0")
        after = sorted((desk.data / "owners").iterdir())
        told = await server.end()
        third = await desk.run("doctor")

    assert (second.code, second.out) == (4, "")
    assert f"a server works on {desk.data} already at {server.url}" in second.err
    assert after == owners
    assert told == "stopping\n"
    assert "none runs here" in third.out


async def test_doctor_names_the_server(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _), serving(desk) as server:
        told = await desk.run("doctor")

    assert f"{server.url}, process {server.process.pid}, works on all sessions" in told.out


async def test_a_result_is_taken_up_by_the_server(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script(DEPLOY)) as (desk, _):
        _, session_id, (call_id,) = await parked(desk)
        async with serving(desk) as server:
            given = await desk.run("submit", call_id, "v2 is live")
            async with desk.look() as runtime:
                status = await runtime.wait(session_id)
            text = (await desk.run("show", session_id)).out

    assert (given.code, isinstance(status, Idle)) == (0, True)
    assert given.err == f"accepted: deploy of session {session_id}; the server at {server.url} works on it\n"
    assert "Done." in text
