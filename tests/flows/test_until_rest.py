"""When a server with --until-rest ends: after the last session rests and the last client left."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from asyncagents import call, say
from asyncagents.cli.serve.until_rest import GRACE_SECONDS, RestWatch, describe_remainder
from asyncagents.engine.runtime.rest_check import Remainder
from asyncagents.server.discovery import find_server
from tests.support.delegation import launch_task, wait_until_quiet
from tests.support.http.server import StageClient, serve_delegation
from tests.support.tool import Gate
from tests.support.wait import PATIENCE, wait_until

SECONDS = 0.3
SCENES = {
    "hi": [[say("Hello.")]],
    "go": [[launch_task("A", "a")], [say("Off.")]],
    "a": [[call("gate")], [say("Done.")]],
}


class WatchedServer:
    """A server, the watch of its rest, and whether that watch has ended."""

    def __init__(self, at: StageClient, watch: RestWatch, data: Path, stop: asyncio.Event) -> None:
        self.at = at
        self.runtime = at.runtime
        self.watch = watch
        self.data = data
        self.stop = stop
        self.waiting: asyncio.Task[None]

    async def end(self) -> float:
        """Return the time at which the watch ended."""
        async with asyncio.timeout(PATIENCE):
            await self.waiting
        return asyncio.get_running_loop().time()

    def is_listed(self) -> bool:
        return find_server(self.data) is not None


@asynccontextmanager
async def watch_server(
    tmp_path: Path, gate: Gate, *, seconds: float = SECONDS
) -> AsyncIterator[WatchedServer]:
    stop = asyncio.Event()
    async with serve_delegation(tmp_path, SCENES, gate.tool) as at, asyncio.TaskGroup() as group:
        watched = WatchedServer(at, RestWatch(at.runtime, seconds, stop), tmp_path, stop)
        watched.waiting = group.create_task(watched.watch.wait_and_withdraw(tmp_path, at.listing))
        yield watched
        stop.set()


async def test_a_server_at_rest_without_a_client_ends_and_is_not_listed(tmp_path: Path) -> None:
    async with watch_server(tmp_path, Gate("gate")) as server:
        began = asyncio.get_running_loop().time()
        assert server.is_listed()
        ended = await server.end()
        assert not server.is_listed()
    assert ended - began >= 2 * SECONDS


async def test_a_server_stays_while_a_background_task_works(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with watch_server(tmp_path, gate, seconds=0.1) as server:
        await server.at.stage.prompt("go")
        await gate.until_started()
        assert not await server.watch.stays_at_rest(4 * 0.1)
        assert server.is_listed()
        gate.go.set()
        await wait_until_quiet(server.runtime, server.at.stage.session_id)
        await server.end()
        (task,) = await server.runtime.tasks.list()
        assert task.status == "completed"


async def test_an_open_event_stream_is_a_client(tmp_path: Path) -> None:
    async with watch_server(tmp_path, Gate("gate"), seconds=0.1) as server:
        async with server.at.stream() as stream:
            await stream.until("snapshot")
            assert not await server.watch.stays_at_rest(4 * 0.1)
            assert server.is_listed()
        await server.end()


async def test_a_request_that_waits_for_its_answer_is_a_client(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with watch_server(tmp_path, gate, seconds=0.1) as server, asyncio.TaskGroup() as group:
        path = f"/session/{server.at.stage.session_id}/message"
        body = {"parts": [{"type": "text", "text": "a"}]}
        asked = group.create_task(server.at.request("POST", path, body, headers=server.at.authorization))
        await gate.until_started()
        assert server.runtime.counters.open_requests == 1
        gate.go.set()
        assert (await asked).status == 200
        assert server.runtime.counters.open_requests == 0
        await server.end()


async def test_a_request_begins_the_rest_anew(tmp_path: Path) -> None:
    async with watch_server(tmp_path, Gate("gate"), seconds=0.5) as server:
        await server.watch.stays_at_rest(0.25)
        assert (await server.at.request("GET", "/session", headers=server.at.authorization)).status == 200
        asked = asyncio.get_running_loop().time()
        assert await server.end() - asked >= 2 * 0.5


async def test_monitoring_and_refused_requests_are_no_clients(tmp_path: Path) -> None:
    async with watch_server(tmp_path, Gate("gate")) as server:
        for path in ("/v1/health", "/ready", "/metrics", "/v1/stats", "/doc"):
            assert (await server.at.get(path)).status == 200
        refused = await server.at.get("/session", headers={"host": "elsewhere.example"})
        assert refused.status == 403
        assert server.runtime.counters.client_requests == 0


async def test_a_client_that_has_just_read_the_listing_is_answered_and_the_server_stays(
    tmp_path: Path,
) -> None:
    async with watch_server(tmp_path, Gate("gate"), seconds=GRACE_SECONDS) as server:
        await wait_until(lambda: not server.is_listed())
        path = f"/session/{server.at.stage.session_id}/message"
        body = {"parts": [{"type": "text", "text": "hi"}]}
        answer = await server.at.request("POST", path, body, headers=server.at.authorization)
        assert answer.status == 200
        await wait_until(server.is_listed)
        assert find_server(tmp_path) == server.at.listing
        await server.end()


async def test_a_signal_ends_the_wait_at_once(tmp_path: Path) -> None:
    async with watch_server(tmp_path, Gate("gate"), seconds=3600) as server:
        server.stop.set()
        await server.end()
        assert server.is_listed(), "the server itself removes its listing"


async def test_a_store_that_fails_is_no_work(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing can be done without it, and a process that waits for it for ever helps nobody."""
    async with watch_server(tmp_path, Gate("gate"), seconds=3600) as server:
        rename_table(tmp_path, "delivery", "gone")
        at_rest = await server.watch.is_at_rest()
        rename_table(tmp_path, "gone", "delivery")
    assert at_rest
    assert "action=check_rest" in caplog.text


def rename_table(data: Path, old: str, new: str) -> None:
    with closing(sqlite3.connect(data / "asyncagents.db")) as other, other:
        other.execute(f"ALTER TABLE {old} RENAME TO {new}")


def test_what_stays_is_named_with_the_command_that_shows_it() -> None:
    left = Remainder(asks=1, pending=2, stuck=1, next_due=1_800_000_000_000)
    assert list(describe_remainder(left)) == [
        "1 ask waits for an answer: `asyncagents asks --all`",
        "2 pending calls wait for a result: `asyncagents pending`",
        "1 session waits for a model, or cannot be read: `asyncagents why ID`",
        "a deadline passes at 2027-01-15T08:00:00.000Z; it takes effect when the next server runs",
    ]
    assert list(describe_remainder(Remainder(asks=0, pending=0, stuck=0, next_due=None))) == []
