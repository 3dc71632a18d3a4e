"""`run --api`: a server beside a run, for as long as the run lasts."""

import asyncio
import json
import signal
from asyncio.subprocess import Process
from pathlib import Path

import aiohttp
import pytest

from asyncagents.testing.provider import Reply
from tests.support.process.command_line import (
    PROCESS_PATIENCE,
    build_slow_replies,
    open_desk,
    read_until,
    wait_for_exit,
)


async def url_of(process: Process) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(PROCESS_PATIENCE):
        while line := (await process.stderr.readline()).decode():
            if line.startswith("listening at "):
                return line.removeprefix("listening at ").strip()
    raise AssertionError("it does not listen")


@pytest.mark.spec("H-10")
async def test_a_run_with_api_serves_http_and_takes_no_work_of_other_runs(tmp_path: Path) -> None:
    script = {"go": build_slow_replies("one two three four"), "other": [Reply(text="I work alone.")]}
    async with open_desk(tmp_path, script) as (desk, _):
        run = await desk.start("run", "--api", "--port", "0", "go")
        url = await url_of(run)
        await read_until(run, "one")
        async with aiohttp.ClientSession() as http, http.get(f"{url}/v1/health") as response:
            health = await response.json()
        listing = json.loads((desk.data / "server.json").read_text())
        other = await desk.run("run", "other")
        second = await desk.run("run", "--api", "--port", "0", "other")
        doctor = await desk.run("doctor")
        run.send_signal(signal.SIGTERM)
        await wait_for_exit(run)
        left = (desk.data / "server.json").exists()

    assert health["status"] == "ok"
    assert listing["url"] == url
    assert listing["servesAll"] is False
    assert other.code == 0
    assert other.out == "I work alone.\n"
    assert second.code == 0
    assert second.out == "I work alone.\n"
    assert f" at {url}: stop it first" in second.err
    assert f"{url}, process {run.pid}, belongs to a run" in doctor.out
    assert run.returncode == 143
    assert left is False


@pytest.mark.spec("H-10")
async def test_with_the_api_disabled_nothing_listens_and_runs_still_work(tmp_path: Path) -> None:
    off = {"ASYNCAGENTS_API_ENABLED": "false"}
    async with open_desk(tmp_path, {"go": [Reply(text="Done.")]}) as (desk, _):
        ran = await desk.run("run", "--api", "go", env=off)
        serve = await desk.start("serve", env=off)
        assert serve.stderr is not None
        told = await serve.stderr.readline()
        begun = await desk.run("run", "--detach", "go")
        session_id = begun.out.strip()
        watched = await desk.run("tasks", "--watch", session_id)
        shown = await desk.run("show", session_id)
        files = {path.name for path in desk.data.iterdir()}
        serve.send_signal(signal.SIGTERM)
        served = await wait_for_exit(serve)

    assert ran.code == 0
    assert ran.out == "Done.\n"
    assert b"not listening" in told
    assert watched.code == 0
    assert served.code == 0
    assert "Done." in shown.out
    assert "server.json" not in files


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--api", "--attach", "http://h:1"), "leave out --attach"),
        (("--api", "--detach"), "leave out --detach"),
        (("--port", "1"), "--port requires --api"),
        (("--token", "t"), "--token requires --attach"),
    ],
)
async def test_contradicting_options_are_refused(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    async with open_desk(tmp_path) as (desk, _):
        ran = await desk.run("run", "go", *words)

    assert ran.code == 2
    assert told in ran.err
