"""What waits costs a row: no memory, no task; and whatever is asked about it is found by an index."""

import asyncio
import gc
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from asyncagents import Runtime, ScriptedModel, ToolContext, async_tool, call, open_runtime, say
from asyncagents.domain.call import Completed
from asyncagents.domain.id import SessionId
from asyncagents.domain.status import WaitingAsync
from asyncagents.store.sqlite.connection import Connection, Cursor, connect
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.store import Store
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.flows.kit import PATIENCE

MODEL = ScriptedModel({"ship": [[call("deploy"), call("deploy")], [say("done")]]}, remember=False)
ROUND = 120
FEW = {
    "SCAN request USING INDEX request_backoff",  # only those that wait for their next try
    "SCAN mark",  # one for each process
}


@async_tool
async def deploy(context: ToolContext) -> str:
    """Deploy something; it takes a day."""
    return "started"


async def _park(runtime: Runtime, count: int) -> list[SessionId]:
    """So many at once, until none of them runs."""

    async def park() -> SessionId:
        session = await runtime.create_session(directory="/project")
        await runtime.prompt(session.id, "ship")
        return session.id

    async with asyncio.timeout(3 * PATIENCE), asyncio.TaskGroup() as group:
        parked = [group.create_task(park()) for _ in range(count)]
    async with asyncio.timeout(PATIENCE):
        while runtime.live:  # noqa: ASYNC110  no event tells that a run is gone
            await asyncio.sleep(0)
    return [each.result() for each in parked]


def _objects() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.spec("P-11")
async def test_a_session_that_waits_leaves_no_object_and_no_task_behind(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=MODEL, tools=[deploy]) as runtime:
        await _park(runtime, ROUND)  # whatever is made once is there
        tasks, objects = len(asyncio.all_tasks()), _objects()
        sessions = await _park(runtime, ROUND)
        status = await runtime.status(sessions[-1])
        assert (runtime.live, len(asyncio.all_tasks())) == (0, tasks)
        assert _objects() - objects < ROUND, "there is something for each of them"
    assert isinstance(status, WaitingAsync)


@pytest.mark.spec("P-11", "P-08")
async def test_a_process_that_finds_sessions_waiting_begins_nothing_for_them(tmp_path: Path) -> None:
    async with open_runtime(tmp_path / "full", model=MODEL, tools=[deploy]) as runtime:
        await _park(runtime, ROUND)
    seen = []
    for name in ("empty", "full"):
        async with open_runtime(tmp_path / name, model=MODEL, tools=[deploy]) as runtime:
            await runtime._dispatcher.sweep()
            seen.append((runtime.live, len(asyncio.all_tasks()), _objects()))
            waiting = await runtime.async_tools.waiting_calls(limit=1_000)
        assert len(waiting) == (2 * ROUND if name == "full" else 0)
        del waiting
    (_, tasks, objects), full = seen
    assert full[:2] == (0, tasks)
    assert full[2] - objects < ROUND


class Watched:
    """A connection that keeps what is asked of it."""

    def __init__(self, real: Connection, asked: dict[str, tuple[Any, ...]]) -> None:
        self._real = real
        self._asked = asked

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def close(self) -> None:
        self._real.close()

    def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> Cursor:
        if re.match(r"\s*(SELECT|UPDATE|DELETE|INSERT|WITH)\b", sql):
            self._asked[sql] = params
        return self._real.execute(sql, params)


@pytest.mark.spec("P-09")
async def test_whatever_looks_for_open_calls_finds_them_by_an_index(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=MODEL, tools=[deploy]) as runtime:
        session_id, another = await _park(runtime, 2)
        first, second = await runtime.async_tools.waiting_calls(session_id)
    path, clock = tmp_path / "asyncagents.db", FakeClock(first.time.created)
    asked: dict[str, tuple[Any, ...]] = {}
    async with open_sqlite(
        path, clock=clock, rng=SeededRng(1), connect=lambda path: Watched(connect(path), asked)
    ) as database:
        store = Store(database)
        asked.clear()
        for status in ("waiting", "processing", "completed", "failed", "expired"):
            await store.pending.calls(status, None, after="", limit=10)
            await store.pending.calls(status, session_id, after="", limit=10)
        await store.open_calls(session_id)
        await store.settle(first.id, Completed("v2"))
        assert await store.next_due() is not None
        clock.advance(25 * 3600 * 1000)
        while (due := await store.next_due()) is not None and due <= clock.now():
            await store.expire()
        assert (await store.call(second.id)).settled
        assert not await store.open_calls(another)
        await store.active("local")
    assert len(asked) > 15, "what is asked was not seen"
    assert not _slow(path, asked)


def _slow(path: Path, asked: dict[str, tuple[Any, ...]]) -> dict[str, list[str]]:
    """Statements that read the whole of a table or index of calls or sessions, or sort what they found."""
    slow: dict[str, list[str]] = {}
    with closing(sqlite3.connect(path)) as db:
        for sql, params in asked.items():
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", params)]
            if found := [line for line in plan if _is_slow(line)]:
                slow[sql] = found
    return slow


def _is_slow(line: str) -> bool:
    return (line.startswith("SCAN") and line not in FEW) or "TEMP B-TREE FOR ORDER BY" in line
