"""The status API: health, sums, what browsers are told. Each scenario of the source is a test."""

import asyncio
from pathlib import Path
from typing import TypeVar

import pytest

from asyncagents.app.assemble import Setup
from asyncagents.app.backend import PolledDatabase
from asyncagents.llm.scripted import ScriptedModel, call, fail, say
from asyncagents.store.tx import Verb
from asyncagents.version import VERSION
from tests.support.delegation import RequestScript, launch_task, task_named, wait_until_quiet, wait_until_rest
from tests.support.http.server import serve_delegation, serve_runtime
from tests.support.runtime import open_sqlite_runtime
from tests.support.tool import Gate
from tests.support.wait import PATIENCE

T = TypeVar("T")

SCENES: RequestScript = {
    "go": [
        [
            launch_task("A", "a"),
            launch_task("B", "b"),
            call("asyncagents_task", description="C", prompt="c", agent="explore"),
        ],
        [say("Off.")],
    ],
    "b": [[fail("the model is on fire")]],
    "c": [[call("gate")], [say("Through.")]],
}


@pytest.mark.spec("H-07")
async def test_health_endpoint_returns_ok_status_with_uptime(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, SCENES, Gate("gate").tool) as at:
        before = await at.json("/v1/health")
        await at.stage.prompt("go")
        after = await at.json("/v1/health")
        for name in "ABC":
            await at.runtime.tasks.cancel((await task_named(at.runtime, name)).session_id)

    assert before.keys() == {"status", "uptime", "version", "taskCount"}
    assert before["status"] == "ok"
    assert before["version"] == VERSION
    assert before["taskCount"] == 0
    assert 0 <= before["uptime"] <= after["uptime"]
    assert after["taskCount"] == 3


@pytest.mark.spec("H-07")
async def test_stats_endpoint_returns_counts_by_status_and_agent(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, gate.tool) as at:
        nothing = await at.json("/v1/stats")
        await at.stage.prompt("go")
        for name in "AB":
            await wait_until_rest(at.runtime, (await task_named(at.runtime, name)).session_id)
        await gate.until_started()
        stats = await at.json("/v1/stats")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.stage.session_id)

    none = {"running": 0, "completed": 0, "error": 0, "cancelled": 0, "resumed": 0}
    assert nothing["byStatus"] == none
    assert nothing["byAgent"] == {}
    assert stats["byStatus"] == none | {"running": 1, "completed": 1, "error": 1}
    assert stats["byAgent"] == {"general": 2, "explore": 1}


@pytest.mark.spec("H-07")
async def test_stats_endpoint_returns_duration_statistics(tmp_path: Path) -> None:
    gate = Gate("gate")
    async with serve_delegation(tmp_path, SCENES, gate.tool) as at:
        nothing = await at.json("/v1/stats")
        await at.stage.prompt("go")
        await gate.until_started()
        active = await at.json("/v1/stats")
        gate.go.set()
        await wait_until_quiet(at.runtime, at.stage.session_id)
        stats = await at.json("/v1/stats")

    assert nothing.keys() == {"byStatus", "byAgent", "duration", "totalTasks", "activeTasks"}
    assert nothing["duration"] == {"avg": 0, "max": 0, "min": 0}
    assert nothing["totalTasks"] == 0
    assert nothing["activeTasks"] == 0
    assert active["totalTasks"] == 3
    assert (active["activeTasks"] >= 1) is True
    assert stats["totalTasks"] == 3
    assert stats["activeTasks"] == 0
    assert 0 <= stats["duration"]["min"] <= stats["duration"]["avg"] <= stats["duration"]["max"]


CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, OPTIONS",
    "access-control-allow-headers": "Content-Type, Authorization",
}
PATHS = ("/v1/tasks", "/v1/tasks/none", "/v1/tasks?limit=0", "/v1/health", "/v1/events", "/v1/no/such/route")


@pytest.mark.spec("H-08")
async def test_responses_include_cors_headers(tmp_path: Path) -> None:
    async with serve_delegation(tmp_path, {}) as at:
        told = [await at.request("GET", path) for path in PATHS if path != "/v1/events"]
        told.append(await at.request("HEAD", "/v1/events"))
        told.append(await at.request("POST", "/v1/tasks"))
        told.append(await at.request("GET", "/v1/tasks", headers={"origin": "https://evil.example"}))

    assert [each.status for each in told] == [200, 404, 400, 200, 404, 200, 405, 401]
    assert all(each.headers.items() >= CORS.items() for each in told)


ELSEWHERE = (
    "/session",
    "/session/ses_none/message",
    "/async-tool/result",
    "/event",
    "/doc",
    "/no/such/route",
    "/",
)


@pytest.mark.spec("H-08")
@pytest.mark.parametrize("paths", [PATHS, ELSEWHERE])
async def test_options_returns_204_with_cors_headers(tmp_path: Path, paths: tuple[str, ...]) -> None:
    asked = {"origin": "https://a.example", "access-control-request-method": "GET"}
    async with serve_delegation(tmp_path, {}) as at:
        told = [await at.request("OPTIONS", path) for path in paths]
        told += [await at.request("OPTIONS", path, headers=asked) for path in paths]

    for each in told:
        assert each.status == 204
        assert each.body == b""
        assert each.headers.items() >= CORS.items()


class Held:
    """A database whose readers wait from here on, until they are let go."""

    def __init__(self) -> None:
        self.holds = False
        self.waiting = 0
        self.came = asyncio.Event()
        self.go = asyncio.Event()

    def behind(self, database: PolledDatabase) -> PolledDatabase:
        self._inner = database
        self.write, self.listen, self.poll = database.write, database.listen, database.poll
        return self

    async def read(self, verb: Verb[T], *, inline: bool = False) -> T:
        if self.holds:
            self.waiting += 1
            self.came.set()
            await self.go.wait()
        return await self._inner.read(verb, inline=inline)


@pytest.mark.spec("H-07")
async def test_health_answers_while_heavy_requests_wait(tmp_path: Path) -> None:
    """They wait for each other, and take one reader of the store between them."""
    held = Held()
    async with (
        open_sqlite_runtime(
            tmp_path, Setup(model=ScriptedModel({}), serve=False), behind=held.behind
        ) as runtime,
        serve_runtime(runtime, tmp_path) as caller,
        asyncio.timeout(PATIENCE),
        asyncio.TaskGroup() as group,
    ):
        held.holds = True
        paths = ("/v1/tasks?search=x", "/v1/stats", "/v1/tasks", "/v1/task-groups/x", "/v1/tasks/x/logs")
        asked = [group.create_task(caller.get(path)) for path in paths]
        await held.came.wait()
        held.holds = False
        health = await caller.json("/v1/health")
        done = [each.done() for each in asked]
        held.go.set()

    assert health["status"] == "ok"
    assert held.waiting == 1
    assert any(done) is False
    assert [each.result().status for each in asked] == [200, 200, 200, 404, 404]
