"""A status board over a long history of tasks: pages, sums, what a board begins with, what opening takes.

Measured in a process of its own: `python -m benchmarks.board DIRECTORY`.
"""

import asyncio
import sqlite3
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from asyncagents import Runtime, ScriptedModel, open_runtime
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.id import Ids, SessionId
from asyncagents.domain.shape import encode
from asyncagents.domain.task.board import TaskQuery
from asyncagents.domain.task.task import Account, Task, TaskStatus
from asyncagents.store.sqlite.statement import load_statements
from asyncagents.store.verb.task import task_columns
from benchmarks.parked import memory
from benchmarks.report import Figure

FEW, MANY = 10_000, 100_000
TRIES = 200
AGENTS = ("general", "explore", "build", "review", "write", "plan", "test")
ENDS: tuple[TaskStatus, ...] = ("completed", "completed", "completed", "error", "cancelled")
RESULT = "It is red, and it was red before; see the three files that say so. " * 8
MODEL = ScriptedModel({}, remember=False)


async def fill(directory: Path, count: int) -> Path:
    """A data directory with so many tasks that have ended."""
    async with open_runtime(directory, model=MODEL) as runtime:
        await runtime.create_session(directory="/project")
    _write(directory / "asyncagents.db", count)
    return directory


def _write(path: Path, count: int) -> None:
    clock, sql = SystemClock(), load_statements()["put_task"]
    ids = Ids(clock, SystemRng())
    with closing(sqlite3.connect(path)) as connection, connection:
        (rev,) = connection.execute("SELECT rev FROM revision").fetchone()
        for number in range(count):
            task = _task(ids, number, clock.now())
            connection.execute(sql, (*task_columns(task), encode(task), 1, rev + number + 1))
        connection.execute("UPDATE revision SET rev = ?", (rev + count,))


def _task(ids: Ids, number: int, now: int) -> Task:
    used = {"read": number % 7, "grep": 2}
    account = Account(finish="stop", tool_calls=number % 7 + 2, by_name=used, last_tools=("read", "grep"))
    return Task(
        id=ids.session(),
        parent_id=SessionId(f"ses_parent{number // 200}"),
        message_id=ids.message(),
        parent_agent="build",
        agent=AGENTS[number % len(AGENTS)],
        description=f"Find the colour of thing {number} in the {number % 97}th module",
        prompt=f"Look at thing number {number} and say which colour it has and where that is said.",
        batch=f"bat_{number // 20}",
        created=now - 60_000,
        began=now - 60_000,
        status=ENDS[number % len(ENDS)],
        ended=now - number % 50_000,
        result=RESULT,
        account=account,
    )


class Took(Struct, frozen=True):
    """Milliseconds of one question, asked many times."""

    p50: float
    p99: float
    cpu: float


class Seen(Struct, frozen=True):
    """By question; and what the process that asked weighs."""

    took: dict[str, Took]
    ready: float
    snapshot_bytes: int
    memory: float


async def look(directory: Path) -> Seen:
    begun = time.perf_counter()
    async with open_runtime(directory, model=MODEL, serve=False) as runtime:
        last = await runtime.board.count()
        ready = time.perf_counter() - begun
        stats = await _tried(runtime.board.stats, 1)
        took = {name: await _tried(ask, TRIES) for name, ask in _questions(runtime, last).items()}
        board, _ = await runtime.board.snapshot()
        return Seen({"stats, first": stats, **took}, ready, len(encode(board)), memory())


def _questions(runtime: Runtime, last: int) -> dict[str, Callable[[], Awaitable[object]]]:
    queries = {
        "page": TaskQuery(),
        "page of a status": TaskQuery(status="completed"),
        "page of an agent and a status": TaskQuery(agent="explore", status="error"),
        "page of a rare word": TaskQuery(search=f"THING {last // 2} "),
        "page of a word that all have": TaskQuery(search="colour"),
        "last page": TaskQuery(offset=last - 50),
    }
    asked: dict[str, Callable[[], Awaitable[object]]] = {
        name: lambda query=query: runtime.board.page(query)  # type: ignore[misc]
        for name, query in queries.items()
    }
    return {**asked, "stats again": runtime.board.stats, "snapshot": runtime.board.snapshot}


async def _tried(ask: Callable[[], Awaitable[object]], times: int) -> Took:
    took, cpu = [], time.process_time()
    for _ in range(times):
        begun = time.perf_counter()
        await ask()
        took.append((time.perf_counter() - begun) * 1e3)
    cpu = (time.process_time() - cpu) * 1e3 / times
    return Took(statistics.median(took), sorted(took)[int(times * 0.99)], cpu)


async def measure(directory: Path, *, full: bool = False) -> list[Figure]:
    count = MANY if full else FEW
    where = await fill(directory / "board", count)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.board", str(where), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    seen = msgspec.json.decode(out, type=Seen)
    figures = [
        figure
        for name, took in seen.took.items()
        for figure in (
            Figure(f"board of {count:,} tasks: {name}, CPU", took.cpu, "ms CPU"),
            Figure("… p50", took.p50, "ms"),
            Figure("… p99", took.p99, "ms", "≤ 10" if "page" in name else ""),
        )
    ]
    return [
        *figures,
        Figure("… bytes of a snapshot", seen.snapshot_bytes, ""),
        Figure("… start-up with them", seen.ready * 1e3, "ms"),
        Figure("… memory of the process", seen.memory, "MB"),
    ]


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(look(Path(sys.argv[1])))))
