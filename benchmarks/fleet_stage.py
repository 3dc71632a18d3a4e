"""A PostgreSQL that syncs, workers on it, and a client that only signals; and what each of them takes."""

import asyncio
import os
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import msgspec
from msgspec.structs import replace

from asyncagents import Runtime, open_runtime
from asyncagents.domain.id import SessionId
from benchmarks.fleet_worker import Orders, Told, fleet
from benchmarks.parked import MODEL, TOOLS
from tests.support.postgres.database import Server, a_database

T = TypeVar("T")
AT_REST = "SELECT NOT EXISTS (SELECT 1 FROM session WHERE state <> 'idle')"
TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
LOOK_SECONDS = 0.02
REST_SECONDS = 600.0
TICKS = os.sysconf("SC_CLK_TCK")


class Worker:
    """A process of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()
        self.ready = 0.0
        """Seconds from the start of the process to the end of its first look at what is to be done."""
        self.memory = 0.0
        """Megabytes at that moment."""

    async def begin(self, orders: Orders) -> None:
        begun = time.perf_counter()
        self.memory = (await self._asked(msgspec.json.encode(orders), Told)).memory
        self.ready = time.perf_counter() - begun

    async def tell(self) -> Told:
        return await self._asked(b"tell", Told)

    async def send(self, session_id: SessionId, text: str) -> int:
        """When it was acknowledged there."""
        return await self._asked(f"send {session_id} {text}".encode(), int)

    async def _asked(self, what: bytes, kind: type[T]) -> T:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._turn:
            self._process.stdin.write(what + b"\n")
            return msgspec.json.decode(await self._process.stdout.readline(), type=kind)

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


@asynccontextmanager
async def a_worker(orders: Orders) -> AsyncIterator[Worker]:
    command = [sys.executable, "-m", "benchmarks.fleet_worker"]
    # A line has all claims.
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=1 << 24)
    worker = Worker(process)
    try:
        await worker.begin(orders)
        yield worker
    finally:
        await worker.end()


class Stage:
    """A database of its own, and whoever uses it."""

    def __init__(self, store: str, runtime: Runtime, admin: Any, workers: list[Worker]) -> None:
        self.store = store
        self.runtime = runtime
        """Runs nothing: it only signals, and listens."""
        self.admin = admin
        self.workers = workers

    async def sessions(self, count: int) -> list[SessionId]:
        made = (self.runtime.create_session(directory="/project") for _ in range(count))
        return [session.id for session in await asyncio.gather(*made)]

    async def rest(self) -> None:
        """Until nothing is at work or waits for a worker."""
        async with asyncio.timeout(REST_SECONDS):
            while not await self.admin.fetchval(AT_REST):  # noqa: ASYNC110  another process ends it
                await asyncio.sleep(LOOK_SECONDS)

    async def told(self) -> list[Told]:
        return [await worker.tell() for worker in self.workers]

    async def claims(self) -> dict[SessionId, int]:
        """When each session was claimed last."""
        return {session_id: at for told in await self.told() for session_id, at in sorted(told.claims)}

    async def postgres_cpu(self) -> float:
        return await postgres_cpu(self.admin)


@asynccontextmanager
async def a_stage(server: Server, orders: Orders | None = None, *, workers: int = 1) -> AsyncIterator[Stage]:
    """The `store` of the orders is filled in."""
    async with a_database(server) as store, opened(store, orders, workers=workers) as stage:
        yield stage


@asynccontextmanager
async def opened(store: str, orders: Orders | None = None, *, workers: int = 1) -> AsyncIterator[Stage]:
    """On a database that is there."""
    orders = replace(orders or Orders(store=""), store=store)
    async with AsyncExitStack() as stack:
        data = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-fleet"))
        client = open_runtime(data, model=MODEL, tools=TOOLS, serve=False, fleet=fleet(orders))
        runtime = await stack.enter_async_context(client)
        admin = await asyncpg.connect(store)
        stack.push_async_callback(admin.close)
        crew = [await stack.enter_async_context(a_worker(orders)) for _ in range(workers)]
        yield Stage(store, runtime, admin, crew)


async def postgres_cpu(admin: Any) -> float:
    """Seconds of all its processes, with those that have ended."""
    pid = int((await admin.fetchval("SELECT pg_read_file('postmaster.pid')")).split()[0])
    return await asyncio.to_thread(cpu_with_children, pid)


def cpu_with_children(pid: int) -> float:
    """Of a process, its children that live, and those that it has waited for."""
    living = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    own = [_times(each)[:2] for each in living]
    return sum(map(sum, [*own, _times(str(pid))])) / TICKS


def _times(pid: str) -> list[int]:
    """User and system time of it, and of its children that have ended, in ticks."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return [0]
    return [int(each) for each in text.rpartition(")")[2].split()[11:15]]


def share(values: Sequence[float], part: float) -> float:
    """The value that this part of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


async def evenly(acts: Sequence[Callable[[], Any]], rate: float) -> list[Any]:
    """Begin so many a second, whether or not those before have ended; what they gave, in their order."""
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        begun, tasks = loop.time(), []
        for number, act in enumerate(acts):
            await asyncio.sleep(max(0.0, begun + number / rate - loop.time()))
            tasks.append(group.create_task(act()))
    return [task.result() for task in tasks]
