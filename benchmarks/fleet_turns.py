"""Turns a second: workers on one PostgreSQL, beside SQLite in one process; and what a turn takes.

The one with SQLite is a process of its own: `python -m benchmarks.fleet_turns DIRECTORY SESSIONS TURNS`.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import uvloop
from msgspec import Struct

from asyncagents import Runtime, open_runtime
from asyncagents.domain.id import SessionId
from benchmarks.fleet_stage import TRANSACTIONS, Stage, a_stage
from benchmarks.fleet_tally import NONE, Tally, Times, since
from benchmarks.fleet_worker import Orders
from benchmarks.parked import MODEL, TOOLS
from benchmarks.report import Figure
from tests.support.postgres.database import Server

CREWS = (1, 2, 4)
SESSIONS, TURNS = 400, 2
WARM = 200
"""Turns of each worker that are not counted: connections are made by then, and statements known on all."""
THINK = 1.0
PLACES = 16
"""Sessions at work in a worker at once, with a model that thinks."""
TALLIED = 100


class Spent(Struct, frozen=True):
    """In seconds; of the CPU what a turn took."""

    rate: float
    client: float
    workers: float
    postgres: float
    transactions: float = 0.0


async def _turns(runtime: Runtime, sessions: list[SessionId]) -> None:
    await asyncio.gather(*(runtime.send(session_id, "hi") for session_id in sessions))


async def _measured(stage: Stage, sessions: int, turns: int) -> Spent:
    warm = await stage.sessions(WARM * len(stage.workers))
    await _turns(stage.runtime, warm)
    await stage.rest()
    ids = await stage.sessions(sessions)
    before, wall = await _taken(stage), time.perf_counter()
    for _ in range(turns):
        await _turns(stage.runtime, ids)
        await stage.rest()
    wall, after = time.perf_counter() - wall, await _taken(stage)
    answered = await stage.admin.fetchval("SELECT COUNT(*) FROM input WHERE answer_id IS NOT NULL")
    assert answered == len(warm) + sessions * turns, f"{answered} prompts were answered"
    taken = [(late - early) / (sessions * turns) for early, late in zip(before, after, strict=True)]
    return Spent(sessions * turns / wall, *taken)


async def _taken(stage: Stage) -> tuple[float, float, float, float]:
    return (
        time.process_time(),
        sum(told.cpu for told in await stage.told()),
        await stage.postgres_cpu(),
        await stage.admin.fetchval(TRANSACTIONS),
    )


async def _alone(directory: Path, sessions: int, turns: int) -> Spent:
    """The same in one process, with a file."""
    async with open_runtime(directory, model=MODEL, tools=TOOLS) as runtime:
        warm = [(await runtime.create_session(directory="/project")).id for _ in range(WARM)]
        await asyncio.gather(*(runtime.prompt(session_id, "hi") for session_id in warm))
        ids = [(await runtime.create_session(directory="/project")).id for _ in range(sessions)]
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(turns):
            await asyncio.gather(*(runtime.prompt(session_id, "hi") for session_id in ids))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Spent(sessions * turns / wall, 0.0, cpu / (sessions * turns), 0.0)


def _file(sessions: int, turns: int) -> Spent:
    with tempfile.TemporaryDirectory(prefix="bench-fleet") as place:
        command = [sys.executable, "-m", "benchmarks.fleet_turns", place, str(sessions), str(turns)]
        done = subprocess.run(command, capture_output=True, check=True)
    return msgspec.json.decode(done.stdout, type=Spent)


async def tallied(server: Server, sessions: int = TALLIED) -> tuple[dict[str, Times], dict[str, Times]]:
    """What a worker, and a client, say to the database for so many turns."""
    client = Tally()
    with client.counting():
        async with a_stage(server, Orders(store="", tally=True)) as stage:
            await _turns(stage.runtime, await stage.sessions(WARM))
            await stage.rest()
            ids = await stage.sessions(sessions)
            (before,), was = await stage.told(), client.counted()
            await _turns(stage.runtime, ids)
            await stage.rest()
            (after,), said = await stage.told(), client.counted()
    return since(before.statements, after.statements), since(was, said)


async def measure(server: Server, *, sessions: int = SESSIONS, thinking: int = SESSIONS) -> list[Figure]:
    alone = await asyncio.to_thread(_file, sessions, TURNS)
    instant, slow = {}, {}
    for workers in CREWS:
        async with a_stage(server, workers=workers) as stage:
            instant[workers] = await _measured(stage, sessions, TURNS)
    for workers in CREWS:
        orders = Orders(store="", seconds=THINK, concurrency=PLACES)
        async with a_stage(server, orders, workers=workers) as stage:
            slow[workers] = await _measured(stage, thinking, 1)
    return [
        *_instant(alone, instant, sessions),
        *_slow(slow),
        *_said(await tallied(server)),
    ]


def _instant(alone: Spent, seen: dict[int, Spent], sessions: int) -> list[Figure]:
    figures = [
        Figure(
            f"{sessions} sessions × {TURNS} turns of an instant model, SQLite, one process", alone.rate, "1/s"
        ),
        Figure("… CPU, a turn", alone.workers * 1e3, "ms"),
    ]
    for workers, spent in seen.items():
        figures += [
            Figure(f"… PostgreSQL, {_crew(workers)} and a client", spent.rate, "1/s"),
            Figure("… … against SQLite", 100 * spent.rate / alone.rate, "%"),
            Figure("… … CPU of the workers, a turn", spent.workers * 1e3, "ms"),
            Figure("… … CPU of PostgreSQL, a turn", spent.postgres * 1e3, "ms"),
            Figure("… … CPU of the client, a turn", spent.client * 1e3, "ms"),
            Figure("… … transactions, a turn", spent.transactions, ""),
        ]
    return figures


def _slow(seen: dict[int, Spent]) -> list[Figure]:
    figures = []
    for workers, spent in seen.items():
        most = workers * PLACES / THINK
        what = f"turns of a model that takes {THINK:g} s, {PLACES} at once in {_crew(workers)}"
        figures += [
            Figure(what, spent.rate, "1/s"),
            Figure("… of what the model allows", 100 * spent.rate / most, "%"),
            Figure("… against one worker", spent.rate / seen[1].rate, "×"),
        ]
    return figures


def _said(both: tuple[dict[str, Times], dict[str, Times]]) -> list[Figure]:
    figures = []
    for who, said in zip(("a worker", "the client"), both, strict=True):
        count = sum(each.count for each in said.values())
        figures += [
            Figure(f"statements of {who}, a turn", count / TALLIED, ""),
            Figure("… transactions that write", said.get("COMMIT", NONE).count / TALLIED, ""),
        ]
    return figures


def _crew(workers: int) -> str:
    return "one worker" if workers == 1 else f"{workers} workers"


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        spent = runner.run(_alone(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
    sys.stdout.write(msgspec.json.encode(spent).decode())
