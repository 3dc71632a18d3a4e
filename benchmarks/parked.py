"""Sessions that wait cost a row: no memory, no task, and one is woken as fast as if it were alone."""

import asyncio
import os
import sqlite3
import time
from pathlib import Path

from msgspec import Struct

from asyncagents import Pending, ScriptedModel, Tool, ToolContext, call, open_runtime, say
from benchmarks.report import Figure

FEW, MANY = 100_000, 1_000_000


class Deploy(Struct, frozen=True):
    """Deploy something; it takes a day."""


async def _deploy(args: Deploy, context: ToolContext) -> Pending:
    return Pending(note="started")


MODEL = ScriptedModel({"ship": [[call("deploy")], [say("done")]]}, remember=False)
TOOLS = [Tool("deploy", Deploy, _deploy)]
TABLES = {
    "session": ("id", "root_id"),
    "message": ("id", "session_id"),
    "part": ("id", "message_id", "session_id"),
    "input": ("message_id", "session_id", "answer_id"),
    "call": ("id", "session_id", "part_id"),
    "request": ("id", "session_id", "message_id"),
}


async def _park_one(directory: Path) -> None:
    async with open_runtime(directory, model=MODEL, tools=TOOLS) as runtime:
        session = await runtime.create_session(directory="/project")
        await runtime.prompt(session.id, "ship")


def _multiply(path: Path, count: int) -> None:
    """Copy the rows of the one parked session, each copy with ids of its own."""
    db = sqlite3.connect(path)
    (session_id,) = db.execute("SELECT id FROM session").fetchone()
    for table, ids in TABLES.items():
        columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
        picked = ", ".join(_copied(column, ids) for column in columns)
        db.execute(
            f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count - 1}) "
            f"INSERT INTO {table} SELECT {picked} FROM {table}, n WHERE {_owner(table)} = ?",
            (session_id,),
        )
    db.commit()
    db.close()


def _owner(table: str) -> str:
    return "id" if table == "session" else "session_id"


def _copied(column: str, ids: tuple[str, ...]) -> str:
    """The last seven characters of an id become the number of the copy, in its column and in the JSON."""
    fresh = "substr({0}, 1, length({0}) - 7) || printf('%07d', i)"
    if column in ids:
        return fresh.format(column)
    if column in ("info", "body"):
        return _json(column, ids)
    return column


def _json(column: str, ids: tuple[str, ...]) -> str:
    made = column
    for name in ids:
        new = f"substr({name}, 1, length({name}) - 7) || printf('%07d', i)"
        made = f"replace({made}, {name}, {new})"
    return f"CAST({made} AS BLOB)"


def _memory() -> float:
    """Resident megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure(directory: Path, *, full: bool = False) -> list[Figure]:
    count = MANY if full else FEW
    await _park_one(directory / "one")
    await _park_one(directory / "many")
    async with open_runtime(directory / "one", model=MODEL, tools=TOOLS) as runtime:
        await runtime.statuses()
        before = _memory()
    _multiply(directory / "many" / "asyncagents.db", count)
    begun = time.perf_counter()
    async with open_runtime(directory / "many", model=MODEL, tools=TOOLS) as runtime:
        sessions = await runtime.sessions("/project", limit=3)
        ready = time.perf_counter() - begun
        await asyncio.sleep(0.5)  # let the sweep see them all
        grown, live = _memory() - before, runtime.live
        woken = time.perf_counter()
        (waiting,) = await runtime.open_calls(sessions[1].id)
        await runtime.complete(waiting.id, "v2")
        await runtime.wait(sessions[1].id)
        wake = time.perf_counter() - woken
    return [
        Figure(f"memory of {count:,} parked sessions", grown, "MB", "≤ 5"),
        Figure("live runs meanwhile", live, "", "0"),
        Figure("start-up with them", ready * 1e3, "ms"),
        Figure("wake of one, from result to rest", wake * 1e3, "ms"),
    ]
