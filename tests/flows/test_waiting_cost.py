"""What waits costs a row: no memory, no task; and whatever is asked about it is found by an index."""

import asyncio
import gc
import re
import sqlite3
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncagents import Runtime, ScriptedModel, ToolContext, async_tool, call, say
from asyncagents.config.config import AsyncToolsConfig
from asyncagents.domain.call.call import AsyncState, Call, Completed, Settled
from asyncagents.domain.conversation.status import WaitingAsync
from asyncagents.domain.id import CallId, MessageId, PartId, SessionId
from asyncagents.domain.session_state import SWEEP_ROWS
from asyncagents.engine.audit import MAX_PIECES
from asyncagents.engine.dispatcher import RETRY_MS, SWEEP_MS
from asyncagents.store.sqlite.connection import Connection, SqliteCursor, connect
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.store import Store
from asyncagents.testing.clock import FakeClock, SeededRng
from asyncagents.testing.inside import inside
from tests.support.runtime import open_runtime
from tests.support.wait import PATIENCE, wait_until

MODEL = ScriptedModel({"ship": [[call("deploy"), call("deploy")], [say("done")]]}, remember=False)
ROUND = 120
INSERT = (
    "INSERT INTO call (id, session_id, part_id, body, state, due, shown_pending, pending, version, rev) "
    "VALUES (?, ?, ?, ?, 'settled', 1, 0, 'completed', 1, 1)"
)
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
    await wait_until(lambda: not runtime.live)  # no event tells that a run is gone
    return [each.result() for each in parked]


def _objects() -> int:
    """Without weak references: a connection keeps some to old cursors, and drops them at times."""
    gc.collect()
    return sum(not isinstance(each, weakref.ref) for each in gc.get_objects())


@pytest.mark.spec("P-11")
async def test_a_session_that_waits_leaves_no_object_and_no_task_behind(tmp_path: Path) -> None:
    async with open_runtime(tmp_path, model=MODEL, tools=[deploy]) as runtime:
        sessions = await _park(runtime, ROUND)  # whatever is made once is there
        more, tasks = [], len(asyncio.all_tasks())
        for _ in range(3):  # something else of this process may be made meanwhile, not every time
            objects = _objects()
            sessions = await _park(runtime, ROUND)
            assert runtime.live == 0
            assert len(asyncio.all_tasks()) == tasks
            more.append(_objects() - objects)
        status = await runtime.status(sessions[-1])
        assert min(more) < ROUND / 2, f"there is something for each of them: {more}"
    assert isinstance(status, WaitingAsync)


@pytest.mark.spec("P-11", "P-08")
async def test_a_new_process_allocates_nothing_for_parked_sessions(tmp_path: Path) -> None:
    async with open_runtime(tmp_path / "full", model=MODEL, tools=[deploy]) as runtime:
        await _park(runtime, ROUND)
    more = []
    for _ in range(3):  # something else of this process may be made meanwhile, not every time
        seen = []
        for name in ("empty", "full"):
            async with open_runtime(tmp_path / name, model=MODEL, tools=[deploy]) as runtime:
                await inside(runtime).dispatcher.sweep()
                seen.append((runtime.live, len(asyncio.all_tasks()), _objects()))
                waiting = await runtime.async_tools.waiting_calls(limit=1_000)
            assert len(waiting) == (2 * ROUND if name == "full" else 0)
            del waiting
        (_, tasks, objects), full = seen
        assert full[:2] == (0, tasks)
        more.append(full[2] - objects)
    assert min(more) < ROUND / 2


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

    def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> SqliteCursor:
        if re.match(r"\s*(SELECT|UPDATE|DELETE|INSERT|WITH)\b", sql):
            self._asked[sql] = params
        return self._real.execute(sql, params)


@pytest.mark.spec("P-09")
async def test_open_calls_are_found_by_an_index(tmp_path: Path) -> None:
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
        assert (await store.call(second.id)).is_settled
        assert not await store.open_calls(another)
        await store.active_sessions("local")
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


@pytest.mark.spec("P-15")
async def test_a_backlog_of_old_calls_is_deleted_over_several_sweeps(
    tmp_path: Path,
) -> None:
    """Retention goes in pieces: what is left is for the next sweep, which comes soon."""
    keep = AsyncToolsConfig(keep_days=1e-9)
    async with open_runtime(tmp_path, model=MODEL, tools=[deploy], async_tools=keep, serve=False) as runtime:
        session = await runtime.create_session(directory="/project")
        await runtime.send(session.id, "ship")
    backlog = 2 * MAX_PIECES * SWEEP_ROWS + 1
    _settle_long_ago(tmp_path / "asyncagents.db", session.id, backlog)
    pauses, left = [], []
    async with open_runtime(tmp_path, model=MODEL, tools=[deploy], async_tools=keep, serve=False) as runtime:
        for _ in range(3):
            pauses.append(await inside(runtime).dispatcher.sweep())
            left.append(len(await runtime.async_tools.list("completed", limit=1_000)))
    assert left == [min(1_000, backlog - MAX_PIECES * SWEEP_ROWS), 1, 0]
    assert pauses == [RETRY_MS, RETRY_MS, SWEEP_MS]


def _settle_long_ago(path: Path, session_id: SessionId, count: int) -> None:
    """As many calls as that, with results from outside, of which nothing but their rows is left."""
    later, state = AsyncState(), Settled(Completed("v2"), 1)
    with closing(sqlite3.connect(path)) as db:
        for number in range(count):
            done = Call(
                id=CallId(f"tool_{number:026d}"),
                session_id=session_id,
                message_id=MessageId("msg_1"),
                part_id=PartId(f"prt_{number}"),
                call_id=f"call_{number}",
                tool="deploy",
                input={},
                turn=1,
                created=1,
                later=later,
                state=state,
            )
            db.execute(INSERT, (done.id, session_id, done.part_id, msgspec.json.encode(done)))
        db.commit()
