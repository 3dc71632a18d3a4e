"""What one more step with a tool's call takes, on PostgreSQL: turns of many steps against turns of one."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from msgspec import Struct

from asyncagents import Runtime, ScriptedModel, call, open_runtime, say, tool
from benchmarks.fleet_stage import TRANSACTIONS, postgres_cpu
from benchmarks.fleet_worker import Orders, fleet
from benchmarks.report import Figure
from tests.support.postgres.database import Server, a_database

SESSIONS = 40
STEPS = 10
PROMPTS = 300


@tool
async def note(text: str) -> str:
    """Write something down."""
    return text


SCRIPT = {
    "one": [[say("done")]] * (PROMPTS + 1),
    "many": [[call("note", text=str(n))] for n in range(STEPS)] + [[say("done")]],
}


class Taken(Struct, frozen=True):
    """Of all turns: CPU in seconds."""

    process: float
    postgres: float
    transactions: float


@asynccontextmanager
async def _opened(server: Server) -> AsyncIterator[tuple[Runtime, Any]]:
    async with a_database(server) as store:
        orders = Orders(store=store, concurrency=SESSIONS)
        with tempfile.TemporaryDirectory(prefix="bench-fleet") as data:
            model = ScriptedModel(SCRIPT, remember=False)
            async with open_runtime(data, model=model, tools=[note], fleet=fleet(orders)) as runtime:
                admin = await asyncpg.connect(store)
                try:
                    yield runtime, admin
                finally:
                    await admin.close()


async def _turns(runtime: Runtime, admin: Any, text: str) -> Taken:
    ids = [(await runtime.create_session(directory="/project")).id for _ in range(SESSIONS)]
    before = await _so_far(admin)
    await asyncio.gather(*(runtime.prompt(each, text) for each in ids))
    await asyncio.sleep(1)  # the server counts by and by
    after = await _so_far(admin)
    return Taken(*(late - early for early, late in zip(before, after, strict=True)))


async def _so_far(admin: Any) -> tuple[float, float, float]:
    return time.process_time(), await postgres_cpu(admin), await admin.fetchval(TRANSACTIONS)


async def _one_tree(runtime: Runtime) -> float:
    """Prompts a second to one session, many at once: each is a transaction, one after the other."""
    session = await runtime.create_session(directory="/project")
    begun = time.perf_counter()
    await asyncio.gather(*(runtime.send(session.id, "one") for _ in range(PROMPTS)))
    return PROMPTS / (time.perf_counter() - begun)


async def measure(server: Server) -> list[Figure]:
    async with _opened(server) as (runtime, admin):
        await _turns(runtime, admin, "many")  # so that statements are known on all connections
        tree = await _one_tree(runtime)
        one, many = await _turns(runtime, admin, "one"), await _turns(runtime, admin, "many")
    steps = SESSIONS * STEPS
    return [
        Figure(
            "one more step with a tool's call: CPU of the worker",
            (many.process - one.process) / steps * 1e3,
            "ms",
        ),
        Figure("… CPU of PostgreSQL", (many.postgres - one.postgres) / steps * 1e3, "ms"),
        Figure("… transactions", (many.transactions - one.transactions) / steps, ""),
        Figure("prompts to one session, many at once: one tree, one transaction at a time", tree, "1/s"),
    ]
