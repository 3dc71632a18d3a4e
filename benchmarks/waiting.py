"""Open calls in a file that has very many of them: start-up, settling, expiry and lookups."""

import asyncio
import gc
import os
import random
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from asyncagents.app.assemble import Setup, start_runtime
from asyncagents.app.backend import Backend
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.id import CallId, Ids, SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.store.sqlite.connection import Connection, SqliteCursor, connect
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.owners import FlockOwners
from benchmarks.parked import FEW, MANY, MODEL, TOOLS, fill, memory
from benchmarks.report import Figure

SETTLES = 1_000
AT_ONCE = 50
DUE = 500
LOOKUPS = 300
PAGES = 15
"""A settle changes about so many."""
Act: TypeAlias = Callable[[], Awaitable[object]]


class Held:
    """A connection that notes how long it holds the write lock: from its BEGIN to the end of its COMMIT."""

    def __init__(self, real: Connection, spans: list[float]) -> None:
        self._real = real
        self._spans = spans
        self._since = 0.0

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def close(self) -> None:
        self._real.close()

    def execute(self, sql: str, params: tuple[object, ...] = (), /) -> SqliteCursor:
        done = self._real.execute(sql, params)
        if sql == "BEGIN IMMEDIATE":
            self._since = time.perf_counter()
        elif sql == "COMMIT" and self._since:
            self._spans.append(time.perf_counter() - self._since)
            self._since = 0.0
        return done


@asynccontextmanager
async def _open(directory: Path, *, serve: bool, spans: list[float] | None = None) -> AsyncIterator[Runtime]:
    """As `open_runtime`, with an eye on the lock."""
    clock, rng = SystemClock(), SystemRng()
    ids, found = Ids(clock, rng), [] if spans is None else spans
    owners = FlockOwners(directory / "owners", f"{rng.below(2**64):016x}")
    setup = Setup(model=MODEL, open_workplaces=fixed_tools(TOOLS), serve=serve)
    try:
        async with (
            open_sqlite(
                directory / "asyncagents.db",
                clock=clock,
                rng=rng,
                ids=ids,
                connect=lambda path: Held(connect(path), found),
            ) as database,
            start_runtime(Backend(database, owners, clock, rng, ids), setup) as runtime,
        ):
            yield runtime
    finally:
        owners.close()


class Times(Struct, frozen=True):
    """Of many that were timed, in seconds."""

    p50: float
    p99: float
    cpu: float
    """Of the whole process, for one of them."""


async def _timed(acts: Sequence[Act], *, at_once: int = 1) -> Times:
    spans: list[float] = []
    cpu = time.process_time()

    async def act(each: Act) -> None:
        began = time.perf_counter()
        await each()
        spans.append(time.perf_counter() - began)

    for first in range(0, len(acts), at_once):
        async with asyncio.TaskGroup() as group:
            for each in acts[first : first + at_once]:
                group.create_task(act(each))
    spans.sort()
    spent = (time.process_time() - cpu) / len(acts)
    return Times(spans[len(spans) // 2], spans[len(spans) * 99 // 100], spent)


def _bare(path: Path) -> Times:
    """What this disk takes for a commit without us."""
    spans, cpu = [], time.process_time()
    with path.open("wb", buffering=0) as file:
        for _ in range(SETTLES):
            began = time.perf_counter()
            file.write(bytes(PAGES * 4096))
            os.fdatasync(file.fileno())
            spans.append(time.perf_counter() - began)
    spans.sort()
    return Times(spans[len(spans) // 2], spans[len(spans) * 99 // 100], (time.process_time() - cpu) / SETTLES)


class Sweep(Struct, frozen=True):
    wall: float
    cpu: float
    longest: float
    """For so long it held the write lock at a time."""


class Seen(Struct, frozen=True):
    """What a process saw that opened a file with open calls."""

    ready: float
    live: int
    memory: tuple[float, float, float, float]
    """Before the file was opened, with it open and swept, after 1,000 settles, after as many more."""
    bare: Times
    """Of a write of its own with a sync, as large as a settle's: the disk, at the same time."""
    one_by_one: Times
    at_once: Times
    neighbours: Sweep
    scattered: Sweep
    lookups: dict[str, Times]


async def look(directory: Path) -> Seen:
    rng = random.Random(7)
    calls, neighbours = _some_calls(directory / "asyncagents.db", rng)
    gc.collect()
    before, began = memory(), time.perf_counter()
    async with _open(directory, serve=True) as runtime:
        await _swept(runtime)
        ready = time.perf_counter() - began
        opened, live = memory(), runtime.live
    async with _open(directory, serve=False) as runtime:
        door = runtime.async_tools
        acts: list[Act] = [partial(door.submit_result, call_id, "v2 is live") for call_id, _ in calls]
        one_by_one = await _timed(acts[:SETTLES])
        gc.collect()
        settled = memory()
        at_once = await _timed(acts[SETTLES : 2 * SETTLES], at_once=AT_ONCE)
        gc.collect()
        again = memory()
        lookups = await _lookups(runtime, [session for _, session in calls[2 * SETTLES :]])
    return Seen(
        ready=ready,
        live=live,
        memory=(before, opened, settled, again),
        bare=_bare(directory / "bare"),
        one_by_one=one_by_one,
        at_once=at_once,
        neighbours=await _sweep(directory, neighbours),
        scattered=await _sweep(directory, [call_id for call_id, _ in calls[-DUE:]]),
        lookups=lookups,
    )


async def _swept(runtime: Runtime) -> None:
    """Until the sweep at the start is over: it then knows when to look again."""
    while runtime._dispatcher._next_look == float("inf"):  # noqa: ASYNC110  no event tells
        await asyncio.sleep(0.001)


async def _lookups(runtime: Runtime, sessions: list[SessionId]) -> dict[str, Times]:
    door, some = runtime.async_tools, sessions[:LOOKUPS]
    return {
        "of a session": await _timed([partial(door.waiting_calls, each) for each in some]),
        "of a page of 100 that wait": await _timed([door.waiting_calls] * LOOKUPS),
        "of the next expiry": await _timed([runtime._store.next_due] * LOOKUPS),
    }


async def _sweep(directory: Path, due: list[CallId]) -> Sweep:
    _make_due(directory / "asyncagents.db", due)
    spans: list[float] = []
    async with _open(directory, serve=False, spans=spans) as runtime:
        await runtime._store.next_due()  # both have their connections
        spans.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        await runtime._dispatcher.sweep()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        left = [call_id for call_id in due if not (await runtime._store.call(call_id)).is_settled]
    if left:
        raise ValueError(f"{len(left)} calls were due and did not expire")
    return Sweep(wall, cpu, max(spans))


def _some_calls(path: Path, rng: random.Random) -> tuple[list[tuple[CallId, SessionId]], list[CallId]]:
    """From all over the file; and some that were begun, and so are due, one after the other."""
    wanted = 2 * SETTLES + LOOKUPS + DUE
    with closing(sqlite3.connect(path)) as db:
        (count,) = db.execute("SELECT COUNT(*) FROM session").fetchone()
        (last,) = db.execute("SELECT id FROM call ORDER BY id DESC LIMIT 1").fetchone()
        ids = [f"{last[:-7]}{number:07d}" for number in rng.sample(range(1, count - DUE), wanted)]
        some = [
            (CallId(each), db.execute("SELECT session_id FROM call WHERE id = ?", (each,)).fetchone()[0])
            for each in ids
        ]
    return some, [CallId(f"{last[:-7]}{number:07d}") for number in range(count - DUE, count)]


def _make_due(path: Path, calls: list[CallId]) -> None:
    with closing(sqlite3.connect(path)) as db:
        overdue = "json_remove(json_set(CAST(body AS TEXT), '$.state.due', 1), '$.state.warn')"
        statement = f"UPDATE call SET due = 1, body = CAST({overdue} AS BLOB) WHERE id = ?"  # noqa: S608
        db.executemany(statement, [(each,) for each in calls])
        db.commit()


async def _in_a_process(directory: Path) -> Seen:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.waiting", str(directory), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return msgspec.json.decode(out, type=Seen)


async def measure(directory: Path, *, full: bool = False) -> list[Figure]:
    """The many are those that `parked` has made there, if it was before."""
    count, few = MANY if full else FEW, directory / "few"
    await fill(few, 2 * SETTLES + LOOKUPS + 2 * DUE + 1)
    many = await fill(directory / "many", count)
    return _figures(await _in_a_process(few), await _in_a_process(many), count)


def _figures(few: Seen, many: Seen, count: int) -> list[Figure]:
    before, opened, settled, again = many.memory
    figures = [
        Figure(f"start-up on {count:,} open calls, first sweep done", many.ready * 1e3, "ms", "≤ 2,000"),
        Figure("… on three thousand", few.ready * 1e3, "ms"),
        Figure("… memory it took", opened - before, "MB"),
        Figure("… memory that 1,000 settles took, page caches included", settled - opened, "MB"),
        Figure("… memory that 1,000 more took", again - settled, "MB", "≤ 5"),
    ]
    figures += [
        Figure(f"this disk: a write of {PAGES} pages with its sync: p50", many.bare.p50 * 1e3, "ms"),
        Figure("… p99", many.bare.p99 * 1e3, "ms"),
    ]
    for name, times, base in (
        ("one by one", many.one_by_one, few.one_by_one),
        (f"{AT_ONCE} at once", many.at_once, few.at_once),
    ):
        figures += [
            Figure(f"settle of one of them, {name}: p50", times.p50 * 1e3, "ms"),
            Figure("… p99", times.p99 * 1e3, "ms", "≤ 5"),
            Figure("… CPU", times.cpu * 1e3, "ms"),
            Figure("… CPU, against three thousand", 100 * times.cpu / base.cpu, "%"),
        ]
    for name, sweep, alike in (
        ("begun together", many.neighbours, few.neighbours),
        ("from all over the file", many.scattered, few.scattered),
    ):
        figures += [
            Figure(f"sweep with {DUE} due, {name}: wall", sweep.wall * 1e3, "ms", "≤ 20"),
            Figure("… CPU", sweep.cpu * 1e3, "ms"),
            Figure("… CPU, against three thousand", 100 * sweep.cpu / alike.cpu, "%"),
            Figure("… longest hold of the write lock", sweep.longest * 1e3, "ms", "≤ 10"),
        ]
    for name, times in many.lookups.items():
        figures.append(Figure(f"look-up {name}: p99", times.p99 * 1e3, "ms"))
    return figures


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(look(Path(sys.argv[1])))))
