"""Servers that clients start in the background: one for all of them, until nothing is left to do."""

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import ClientError

from asyncagents import SessionId
from asyncagents.cli.serve.until_rest import GRACE_SECONDS
from asyncagents.cli.start_server import LOG_FILE
from asyncagents.domain.conversation.status import Idle
from asyncagents.server.discovery import (
    LISTING_FILE,
    Listing,
    find_server,
    is_server_lock_held,
    write_listing,
)
from asyncagents.testing.provider import Provider, Reply, Script, ToolUse
from tests.support.http.client import open_http_client
from tests.support.process.background_client import (
    REST_VARIABLE,
    ask_for_server,
    open_background_client,
    stop_servers,
    wait_for_server_end,
)
from tests.support.process.command_line import (
    PROCESS_PATIENCE,
    Desk,
    open_desk,
    read_until,
    wait_for_exit,
)
from tests.support.process.script import ASK_EDITS, launch_use, script_steps, write_use
from tests.support.wait import wait_until

WAIT = ToolUse("bash", {"command": "until [ -e go ]; do sleep 0.1; done", "description": "wait"})
TASKS = 3
FAN_OUT: Script = {
    "Fan out": [
        Reply(text="", tools=tuple(launch_use(f"Part {number}", "part") for number in range(TASKS))),
        Reply(text="Waiting."),
        *[Reply(text="All are in.")] * TASKS,
    ],
    "part": [Reply(text="", tools=(WAIT,)), Reply(text="It is 1.")],
}


@asynccontextmanager
async def open_place(tmp_path: Path, script: Script | None = None) -> AsyncIterator[tuple[Desk, Provider]]:
    """A desk where clients start servers; what still runs at the end is killed."""
    async with open_desk(tmp_path, script) as (desk, provider), stop_servers(desk.data):
        desk.configure(permission={"*": "allow"})
        yield desk, provider


def find_pid(desk: Desk) -> int:
    found = find_server(desk.data)
    assert found is not None
    return found.pid


def read_log(desk: Desk) -> str:
    return (desk.data / LOG_FILE).read_text()


@pytest.mark.spec("X-03")
async def test_all_tasks_end_after_their_client_is_killed_and_then_the_server_ends(tmp_path: Path) -> None:
    async with open_place(tmp_path, FAN_OUT) as (desk, provider):
        async with open_background_client(desk, "Fan out") as client:
            await client.read()
            session_id = SessionId((await client.read())["session"])
            await provider.wait_for(lambda: provider.answered >= 2 + TASKS)
            await client.kill()
        assert is_server_lock_held(desk.data)
        (desk.project / "go").touch()
        await wait_for_server_end(desk.data)
        assert not (desk.data / LISTING_FILE).exists()
        async with desk.look() as runtime:
            tasks = await runtime.tasks.list(session_id)
            texts = [entry.text for entry in await runtime.messages(session_id)]
            status = await runtime.status(session_id)

    assert [task.status for task in tasks] == ["completed"] * TASKS
    assert texts[-1] == "All are in."
    assert status == Idle()
    assert read_log(desk).endswith("ending: all sessions rest or wait, and no client is there\n")


@pytest.mark.spec("H-02")
async def test_clients_that_start_at_the_same_time_get_one_server(tmp_path: Path) -> None:
    async with open_place(tmp_path) as (desk, _):
        stays = {REST_VARIABLE: "60"}  # on a busy machine the clients come seconds apart
        found = await asyncio.gather(*(ask_for_server(desk, env=stays) for _ in range(4)))
        listing = find_server(desk.data)
        # a server writes its listing, which clients read, before this line
        await wait_until(lambda: "listening at " in read_log(desk), seconds=PROCESS_PATIENCE)

    assert listing is not None
    assert found == [{"url": listing.url}] * 4
    assert read_log(desk).count("listening at ") == 1


@pytest.mark.spec("H-02")
async def test_a_killed_server_is_followed_by_that_of_the_next_client(tmp_path: Path) -> None:
    async with open_place(tmp_path, {"hi": [Reply(text="", tools=(WAIT,)), Reply(text="Hello.")]}) as (
        desk,
        provider,
    ):
        async with open_background_client(desk, "hi") as client:
            first = await client.read()
            session_id = SessionId((await client.read())["session"])
            await provider.wait_for(lambda: provider.answered >= 1)
        pid = find_pid(desk)
        os.kill(pid, signal.SIGKILL)
        await wait_for_server_end(desk.data)
        assert (desk.data / LISTING_FILE).exists(), "it is stale"
        second = await ask_for_server(desk)
        assert find_pid(desk) != pid
        (desk.project / "go").touch()
        await wait_for_server_end(desk.data)
        async with desk.look() as runtime:
            texts = [entry.text for entry in await runtime.messages(session_id)]

    assert first.keys() == second.keys() == {"url"}
    assert texts[-1] == "Hello."


@pytest.mark.spec("H-02")
async def test_a_stale_listing_that_names_a_living_process_is_not_used(tmp_path: Path) -> None:
    async with open_place(tmp_path) as (desk, provider):
        desk.data.mkdir()
        stale = Listing(port=1, pid=os.getpid(), started_at="", url=provider.url, token="secret")
        write_listing(desk.data, stale)
        found = await ask_for_server(desk)
        listing = find_server(desk.data)

    assert listing is not None
    assert found == {"url": listing.url}
    assert listing.url != stale.url
    assert provider.asked == 0


def find_parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def find_servers(data: Path) -> list[int]:
    """List the processes that serve a data directory, by their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"serve" in words and str(data).encode() in words and b"-c" not in words:
                found.append(int(path.parent.name))
    return found


async def test_a_server_that_is_killed_before_it_listens_is_started_again(tmp_path: Path) -> None:
    async with open_place(tmp_path) as (desk, _), open_background_client(desk) as client:
        await wait_until(lambda: is_server_lock_held(desk.data), seconds=PROCESS_PATIENCE, pause=0.001)
        (pid,) = find_servers(desk.data)
        os.kill(pid, signal.SIGKILL)
        was_listed = (desk.data / LISTING_FILE).exists()
        found = await client.read()
        assert find_pid(desk) != pid

    assert not was_listed
    assert found.keys() == {"url"}


async def prompt_late(root: Path, seconds: float) -> tuple[bool, list[str]]:
    """Send a prompt so long after the listing is gone; return whether it was accepted, and the answers."""
    async with open_place(root, {"hi": [Reply(text="Hello.")]}) as (desk, _):
        await ask_for_server(desk)
        listing = find_server(desk.data)
        assert listing is not None
        now = asyncio.get_running_loop().time
        await wait_until(lambda: find_server(desk.data) is None, seconds=PROCESS_PATIENCE, pause=0.002)
        at = now() + seconds
        await wait_until(lambda: now() >= at, pause=0.002)
        body = {"prompt": "hi", "directory": str(desk.project)}
        try:
            async with open_http_client(listing, sends_token=True) as client:
                accepted = (await client.request("POST", "/v1/sessions", body)).status == 200
        except ClientError:
            accepted = False
        await wait_for_server_end(desk.data)
        async with desk.look() as runtime:
            sessions = await runtime.roots(desk.project)
            return accepted, [(await runtime.messages(each.id))[-1].text for each in sessions]


async def test_a_prompt_that_is_accepted_while_the_server_ends_is_answered(tmp_path: Path) -> None:
    """The end begins a second after the listing is gone, and takes about a tenth."""
    late = [GRACE_SECONDS + part for part in (-0.1, 0.0, 0.04, 0.08, 0.3)]
    found = await asyncio.gather(*(prompt_late(tmp_path / str(each), each) for each in late))
    for accepted, answers in found:
        assert answers == (["Hello."] if accepted else [])


async def test_a_server_that_cannot_start_is_an_error_with_the_end_of_its_log(tmp_path: Path) -> None:
    async with open_place(tmp_path) as (desk, _):
        (desk.project / "asyncagents.json").write_text('{"model": 3}')
        found = await ask_for_server(desk)

    assert found["error"].startswith(f"the server of {desk.data} has ended 3 times before it listened:\n")
    assert "asyncagents.json" in found["error"]
    assert found["hint"] == f"its log is {desk.data / LOG_FILE}"


async def test_a_started_server_is_detached_from_its_client(tmp_path: Path) -> None:
    async with open_place(tmp_path) as (desk, _), open_background_client(desk, "hi") as client:
        await client.read()
        await client.read()
        pid = find_pid(desk)
        session, parent = os.getsid(pid), find_parent(pid)
        files = [os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)]
        cwd = os.readlink(f"/proc/{pid}/cwd")
        mode = stat.S_IMODE((desk.data / LOG_FILE).stat().st_mode)
        doctor = await desk.run("doctor")
        another = await desk.run("serve")
        os.kill(client.process.pid, signal.SIGINT)
        await client.process.wait()
        assert find_parent(pid), "it goes on for a second at least"

    assert session != os.getsid(0)
    assert parent != client.process.pid, "some editors end all descendants of an agent"
    assert files == [os.devnull, str(desk.data / LOG_FILE), str(desk.data / LOG_FILE)]
    assert cwd == str(desk.data)
    assert mode == 0o600
    assert "runs all sessions; it ends after 1 s of rest" in doctor.out
    assert another.code == 4
    assert f"stop it first with `kill {pid}`" in another.err


async def test_a_started_server_imports_nothing_from_the_project(tmp_path: Path) -> None:
    async with open_place(tmp_path) as (desk, _):
        for folder in (desk.project, desk.data):
            (folder / "asyncagents").mkdir(parents=True)
            (folder / "asyncagents" / "__init__.py").write_text("raise SystemExit('of the project')")
        found = await ask_for_server(desk)

    assert found.keys() == {"url"}


async def test_a_server_whose_data_directory_is_deleted_ends(tmp_path: Path) -> None:
    async with open_place(tmp_path) as (desk, _):
        await ask_for_server(desk)
        pid = find_pid(desk)
        desk.data.rename(tmp_path / "moved")
        await wait_until(lambda: not Path(f"/proc/{pid}").exists(), seconds=PROCESS_PATIENCE)


async def test_without_the_api_no_server_is_started(tmp_path: Path) -> None:
    async with open_place(tmp_path) as (desk, _):
        found = await ask_for_server(desk, env={"ASYNCAGENTS_API_ENABLED": "false"})

    assert found == {"url": None}
    assert not desk.data.exists()


async def test_a_server_ends_while_an_ask_is_open_and_prints_what_stays(tmp_path: Path) -> None:
    async with open_desk(tmp_path, script_steps(write_use("a.txt", "one"))) as (desk, _):
        desk.configure(permission=ASK_EDITS)
        waits = await desk.run("run", "go")
        process = await desk.start("serve", "--port", "0", "--until-rest", "--rest-seconds", "1")
        await read_until(process, "listening at ")
        ended = await wait_for_exit(process)
        [ask] = (await desk.run("asks", "--json")).json["asks"]
        answered = await desk.run("answer", ask["id"], "once")

    assert waits.code == 3
    assert ended.code == 0
    assert ended.err == (
        "ending: all sessions rest or wait, and no client is there\n"
        "1 ask waits for an answer: `asyncagents asks --all`\n"
        f"`asyncagents serve --data-dir {desk.data}` goes on with this, or the next client\n"
    )
    assert answered.code == 0
    assert (desk.project / "a.txt").read_text() == "one"


async def test_a_server_without_the_api_ends_at_rest(tmp_path: Path) -> None:
    async with open_desk(tmp_path, {"hi": [Reply(text="Hello.")]}) as (desk, _):
        begun = await desk.run("run", "--detach", "hi")
        off = {"ASYNCAGENTS_API_ENABLED": "false"}
        process = await desk.start("serve", "--until-rest", "--rest-seconds", "1", env=off)
        ended = await wait_for_exit(process)
        shown = await desk.run("show", begun.out.strip())

    assert ended.code == 0
    assert "Hello." in shown.out


async def test_a_signal_stops_a_server_with_until_rest(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as (desk, _):
        process = await desk.start("serve", "--port", "0", "--until-rest")
        await read_until(process, "listening at ")
        process.send_signal(signal.SIGTERM)
        ended = await wait_for_exit(process)
        alone = await desk.run("serve", "--rest-seconds", "1")

    assert ended.code == 0
    assert ended.err == "stopping\n"
    assert alone.code == 2
    assert "--rest-seconds requires --until-rest" in alone.err
