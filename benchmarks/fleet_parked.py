"""Very many sessions that wait for the outside, in one PostgreSQL: what they take, and how one is woken."""

import random
import time
from functools import partial

import asyncpg
from msgspec import Struct

from asyncagents.domain.id import CallId, SessionId
from benchmarks.fleet_multiply import multiply
from benchmarks.fleet_stage import Stage, a_worker, opened
from benchmarks.fleet_wake import Wakes, figures, woken
from benchmarks.fleet_worker import Orders
from benchmarks.report import Figure
from tests.support.postgres.database import Server, a_database

FEW, MANY = 20_000, 1_000_000
WAKES = 300
RATE = 20.0
DUE = 500
SWEEPS = 20
STARTS = 5
SIZE = "SELECT pg_database_size(current_database()) / 1e6"
OVERDUE = "jsonb_set(readable(body)::jsonb #- '{state,warn}', '{state,due}', '1')::text"


class Sweeps(Struct, frozen=True):
    """Seconds."""

    idle: float
    due: float


class Woken(Struct, frozen=True):
    memory: tuple[float, float]
    """Megabytes of a worker that has just started, and after all that it did."""
    backlog: float
    """Seconds until those that expired had ended their turns."""
    wakes: Wakes


async def _park_one(store: str) -> float:
    """Returns the size of the database, in megabytes."""
    async with opened(store) as stage:
        (session_id,) = await stage.sessions(1)
        await stage.runtime.send(session_id, "ship")
        await stage.rest()
        return float(await stage.admin.fetchval(SIZE))


async def _fill(store: str, count: int) -> float:
    """Nobody has the database open meanwhile: revisions are counted anew."""
    admin = await asyncpg.connect(store)
    try:
        await multiply(admin, count)
        return float(await admin.fetchval(SIZE))
    finally:
        await admin.close()


async def _start(store: str) -> float:
    """Until the first sweep of a worker is over; the median of some."""
    took = []
    for _ in range(STARTS):
        async with a_worker(Orders(store=store)) as worker:
            took.append(worker.ready)
    return sorted(took)[STARTS // 2]


async def _sweeps(store: str, calls: list[CallId]) -> Sweeps:
    """In a process that runs nothing: no other sweep is under way."""
    async with opened(store, workers=0) as stage:
        await _swept(stage)
        idle = sorted([await _swept(stage) for _ in range(SWEEPS)])[SWEEPS // 2]
        update = f"UPDATE call SET due = 1, body = convert_to({OVERDUE}, 'UTF8') WHERE id = ANY($1)"  # noqa: S608
        await stage.admin.execute(update, calls)
        due = await _swept(stage)
        left = "SELECT COUNT(*) FROM call WHERE id = ANY($1) AND state <> 'settled'"
        if count := await stage.admin.fetchval(left, calls):
            raise ValueError(f"{count} calls were due and did not expire")
    return Sweeps(idle, due)


async def _swept(stage: Stage) -> float:
    begun = time.perf_counter()
    await stage.runtime._dispatcher.sweep()
    return time.perf_counter() - begun


async def _woken(store: str, calls: list[tuple[CallId, SessionId]]) -> Woken:
    async with opened(store) as stage:
        begun = time.perf_counter()
        await stage.rest()
        backlog, door = time.perf_counter() - begun, stage.runtime.async_tools
        acts = {
            session_id: partial(door.submit_result, call_id, "v2 is live") for call_id, session_id in calls
        }
        wakes = await woken(stage, acts, RATE)
        (told,) = await stage.told()
        return Woken((stage.workers[0].memory, told.memory), backlog, wakes)


async def _some(store: str, count: int) -> list[tuple[CallId, SessionId]]:
    """From all over the table."""
    admin = await asyncpg.connect(store)
    try:
        total = await admin.fetchval("SELECT COUNT(*) FROM call")
        last = await admin.fetchval("SELECT id FROM call ORDER BY id DESC LIMIT 1")
        ids = [f"{last[:-7]}{number:07d}" for number in random.Random(7).sample(range(1, total - 1), count)]
        rows = await admin.fetch("SELECT id, session_id FROM call WHERE id = ANY($1)", ids)
        return [(row[0], row[1]) for row in rows]
    finally:
        await admin.close()


async def measure(server: Server, *, full: bool = False, count: int | None = None) -> list[Figure]:
    count = count or (MANY if full else FEW)
    async with a_database(server) as store:
        alone, start_with_one = await _park_one(store), await _start(store)
        size = await _fill(store, count)
        start = await _start(store)
        some = await _some(store, DUE + WAKES)
        sweeps = await _sweeps(store, [call_id for call_id, _ in some[:DUE]])
        seen = await _woken(store, some[DUE:])
    return [
        Figure(f"PostgreSQL with {count:,} parked sessions: size", size, "MB"),
        Figure("… a session", (size - alone) / (count - 1) * 1e3, "kB"),
        Figure("… start of a worker, until its first sweep is over", start * 1e3, "ms"),
        Figure("… with one", start_with_one * 1e3, "ms"),
        Figure("… sweep when nothing is due", sweeps.idle * 1e3, "ms"),
        Figure(f"… sweep with {DUE} due", sweeps.due * 1e3, "ms"),
        Figure("… until those have ended their turns, in one worker", seen.backlog, "s"),
        Figure("… memory of a worker that has started", seen.memory[0], "MB"),
        Figure("… memory that all this took of it", seen.memory[1] - seen.memory[0], "MB"),
        Figure(f"results for some of them, {RATE:g} a second, from acknowledgement to claim", WAKES, ""),
        *figures(seen.wakes, wanted=False),
    ]
