"""A disk without room under `asyncagents run`: a sentence, an exit code, and nothing half-done."""

import json
import resource
from collections.abc import Callable
from pathlib import Path

from asyncagents.testing.provider import Reply
from tests.e2e.cli_kit import Desk, Ran, ended, open_desk

LONG = "word " * 60_000
ROOM = 400_000
"""No file may become larger than this: enough for a session, too little for what is long."""


def no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, ROOM))


async def run_with(desk: Desk, limit: Callable[[], None], *words: str) -> Ran:
    return await ended(await desk.start(*words, limit=limit))


async def test_a_prompt_that_cannot_be_stored_leaves_nothing(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, provider):
        (desk.project / "long.txt").write_text(LONG * 2)
        ran = await run_with(desk, no_room, "run", "Read this", "-f", "long.txt")
        listed = await desk.run("sessions", "--json")

    assert (ran.code, ran.out, provider.asked) == (1, "", 0)
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
    assert (went_on.code, went_on.json["text"].strip()) == (0, LONG.strip())
