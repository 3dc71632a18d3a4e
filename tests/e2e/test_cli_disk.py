"""A disk without room under `asyncagents run`: a sentence, an exit code, and nothing half-done."""

import json
import resource
from collections.abc import Callable
from pathlib import Path

from asyncagents.testing.provider import Reply
from tests.support.process.command_line import CommandResult, Desk, open_desk, wait_for_exit
from tests.support.process.server import open_server_process

LONG = "word " * 60_000
ROOM = 400_000
"""No file may become larger than this: enough for a session, too little for what is long."""


def no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))


async def run_with(desk: Desk, limit: Callable[[], None], *words: str) -> CommandResult:
    return await wait_for_exit(await desk.start(*words, limit=limit))


async def test_a_prompt_that_cannot_be_stored_leaves_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, provider):
        (desk.project / "long.txt").write_text(LONG * 2)
        ran = await run_with(desk, no_room, "run", "Read this", "-f", "long.txt")
        listed = await desk.run("sessions", "--json")

    assert ran.code == 1
    assert ran.out == ""
    assert provider.asked == 0
    assert ran.err.startswith("error: the database could not be written: ")
    assert "Traceback" not in ran.err
    assert json.loads(listed.out) == []


async def test_an_answer_that_cannot_be_stored_is_asked_for_again_once_there_is_room(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"Tell": [Reply(text=LONG, chunks=20)]}) as (desk, _):
        ran = await run_with(desk, no_room, "run", "Tell")
        listed = await desk.run("sessions")
        went_on = await desk.run("run", "--continue", "--json")

    assert ran.code == 1
    assert "error: the database could not be written: " in ran.err
    assert "`asyncagents run --session ses_" in ran.err
    assert "Traceback" not in ran.err
    assert " left " in listed.out
    assert went_on.code == 0
    assert went_on.json["text"].strip() == LONG.strip()


async def test_a_server_that_cannot_write_logs_the_reason(tmp_path: Path) -> None:
    async with (
        open_desk(tmp_path) as (desk, _),
        open_server_process(desk, "--port", "0", limit=no_room) as server,
    ):
        long = json.dumps({"prompt": LONG * 2})
        headers = server.client.authorization | {"content-type": "application/json"}
        refused = [
            await server.client.request("POST", "/v1/sessions", headers=headers, data=long) for _ in range(2)
        ]
        (desk.project / "long.txt").write_text(LONG * 2)
        run = await desk.run("run", "Read this", "-f", "long.txt")
        taken = await server.client.request("POST", "/session", headers=server.client.authorization)
        server.process.terminate()
        ran = await wait_for_exit(server.process)
    assert [each.status for each in (*refused, taken)] == [503, 503, 200]
    assert ran.err.count("status=503: StoreError: the database could not") == 3
    assert f"error: the server at {server.listing.url} refuses: the server cannot do this now" in run.err
    assert run.code == 1
    assert str(server.listing.token) not in ran.err
