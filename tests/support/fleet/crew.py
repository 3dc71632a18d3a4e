"""Workers that share a database, and whoever sends them signals: they are killed, stopped, cut off."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct

from asyncagents import Runtime, ScriptedModel, open_runtime
from asyncagents.config.fleet import Fleet
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.errors import AlreadySettled, StoreError
from tests.simulation.stage import Violation
from tests.support.fleet.worker import POOL, Line, Orders, Reader, What, live, now
from tests.support.wait import wait_until

AT_ONCE = 25
START_SECONDS = 30.0
REST_SECONDS = 60.0
PRELOAD = [
    "tests.support.fleet.worker",
    "asyncagents.store.postgres.wake_queue",
    "asyncagents.store.postgres.control_connection",
]
AT_WORK = "SELECT COUNT(*) FROM session WHERE state <> 'idle'"
OPEN = "SELECT COUNT(*) FROM call WHERE state <> 'settled'"
LEFT = "SELECT id, state, owner, fence, claims FROM session WHERE state <> 'idle' LIMIT 20"
LEFT_CALLS = "SELECT id, session_id, tool, state FROM call WHERE state <> 'settled' LIMIT 20"


class Worker(Struct, frozen=True):
    orders: Orders
    process: ForkServerProcess
    line: Connection
    """It ends when it is told to, or when nobody is left who could."""

    @property
    def number(self) -> int:
        return self.orders.number

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


class Crew:
    """Those who work, and the ledger of what they did."""

    def __init__(self, directory: Path, store: str, *, seed: int = 0, heartbeat: float = 2.0) -> None:
        self.store = store
        self.ledger = directory / "ledger"
        self.heartbeat = heartbeat
        self.workers: list[Worker] = []
        self.kills = 0
        self._directory = directory
        self._seed = seed
        self._started = 0
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(PRELOAD)
        self.ledger.touch()

    async def start(
        self, *, store: str = "", concurrency: int = 16, think: float = 0.02, wait: bool = True
    ) -> Worker:
        self._started += 1
        orders = Orders(
            store=store or self.store,
            ledger=self.ledger,
            stderr=self._directory / f"worker{self._started}.err",
            number=self._started,
            seed=self._seed,
            heartbeat=self.heartbeat,
            concurrency=concurrency,
            think=think,
        )
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=live, args=(orders, theirs), daemon=True)
        await asyncio.to_thread(process.start)  # the first one waits for the fork server
        theirs.close()
        worker = Worker(orders, process, ours)
        self.workers.append(worker)
        if wait:
            await self.until("up", worker)
        return worker

    def lines(self, what: What | None = None, worker: Worker | None = None) -> list[Line]:
        """What was written so far."""
        return [
            line
            for line in Reader(self.ledger).news()
            if what in (None, line.what) and (worker is None or line.worker == worker.number)
        ]

    async def until(
        self, what: What, worker: Worker | None = None, where: Callable[[Line], bool] = lambda line: True
    ) -> Line:
        """The first such line, that is there or comes."""
        reader = Reader(self.ledger)

        def look() -> Line | None:
            theirs = (line for line in reader.news() if worker is None or line.worker == worker.number)
            return next((line for line in theirs if line.what == what and where(line)), None)

        try:
            return await wait_until(look, seconds=START_SECONDS)
        except TimeoutError:
            raise Violation(f"nobody wrote {what!r} in {START_SECONDS} s: {self.stderr_ends()}") from None

    async def kill(self, victim: Worker) -> None:
        victim.process.kill()
        await self._forget_worker(victim)
        self.kills += 1

    async def retire(self) -> None:
        """An orderly end for all."""
        for worker in self.workers:
            worker.line.send_bytes(b"stop")
        for worker in list(self.workers):
            await self._forget_worker(worker)
            if worker.process.exitcode != 0:
                raise Violation(
                    f"worker {worker.number} was told to stop, and ended with {worker.process.exitcode}: "
                    f"{self.stderr_ends()}"
                )

    async def end(self) -> None:
        """Whatever happened: no process stays, one that is stopped neither."""
        for worker in list(self.workers):
            worker.process.kill()
            await self._forget_worker(worker)

    async def _forget_worker(self, worker: Worker) -> None:
        await asyncio.to_thread(worker.process.join)
        worker.line.close()
        self.workers.remove(worker)

    def stderr_ends(self) -> str:
        """The end of what each wrote on its standard error."""
        files = sorted(self._directory.glob("worker*.err"))
        return "\n".join(f"{file.name}: {file.read_text(errors='replace')[-3000:]}" for file in files)


@asynccontextmanager
async def open_crew(
    directory: Path, store: str, *, seed: int = 0, heartbeat: float = 2.0
) -> AsyncIterator[Crew]:
    made = Crew(directory, store, seed=seed, heartbeat=heartbeat)
    try:
        yield made
    finally:
        await made.end()


class Ack(Struct, frozen=True):
    """A signal that was taken, and when."""

    session: str
    mark: str
    at: int
    id: MessageId | CallId


class FleetClient:
    """Sends signals by a runtime that runs nothing, and knows which were acknowledged."""

    def __init__(self, runtime: Runtime, store: str, rng: random.Random) -> None:
        self.runtime = runtime
        self.store = store
        self.rng = rng
        self.sessions: list[SessionId] = []
        self.prompts: dict[str, Ack] = {}
        self.results: dict[CallId, Ack] = {}
        self.repeats = 0
        self._prompted = 0

    async def open(self, sessions: int = 1, *, directory: str = "/project") -> None:
        """So many more."""
        for first in range(0, sessions, AT_ONCE):
            new = (
                self.runtime.create_session(directory=directory)
                for _ in range(first, min(first + AT_ONCE, sessions))
            )
            self.sessions += [session.id for session in await asyncio.gather(*new)]

    async def prompt(self, session: int, wish: str = "say", *, twice: bool = False) -> Ack:
        """Until it is acknowledged, under one key; `twice`: whoever heard nothing says it again."""
        self._prompted += 1
        mark = f"s{session}:p{self._prompted}"
        text, session_id = f"<{mark}> {wish}", self.sessions[session]
        sent = [self._send_prompt(session_id, text, mark) for _ in range(1 + twice)]
        ids = set(await asyncio.gather(*sent))
        if len(ids) != 1:
            raise Violation(f"{mark} was sent twice under one key, and is kept as {ids}")
        self.repeats += twice
        ack = self.prompts[mark] = Ack(session_id, mark, now(), ids.pop())
        return ack

    async def _send_prompt(self, session_id: SessionId, text: str, key: str) -> MessageId:
        async def send() -> MessageId | None:
            with suppress(StoreError):  # nobody knows: it is sent again
                return await self.runtime.send(session_id, text, key=key)
            return None

        return await wait_until(send, seconds=None)

    async def submit(self, call_id: CallId, session: int, *, twice: bool = False) -> None:
        text = f"<s{session}:r{call_id}>"

        async def is_kept() -> bool:
            try:
                await self.runtime.async_tools.submit_result(call_id, text)
            except StoreError:
                return False
            except AlreadySettled as refused:
                raise Violation(f"the result of {call_id} was sent again and refused: {refused}") from None
            return True

        for _ in range(1 + twice):
            await wait_until(is_kept, seconds=None)
        self.results[call_id] = Ack(self.sessions[session], text[1:-1], now(), call_id)

    async def rest(self, crew: Crew, *, seconds: float = REST_SECONDS) -> None:
        """Until nothing is at work or waits."""
        try:
            await wait_until(self._rests, seconds=seconds, pause=0.1)
        except TimeoutError:
            left = [await rows(self.store, query) for query in (LEFT, LEFT_CALLS)]
            raise Violation(f"not at rest after {seconds} s: {left}; {crew.stderr_ends()}") from None

    async def _rests(self) -> bool:
        return not await count(self.store, AT_WORK) and not await count(self.store, OPEN)


async def rows(store: str, query: str) -> list[tuple[Any, ...]]:
    """Whatever the server is going through."""

    async def read() -> tuple[list[tuple[Any, ...]]] | None:
        try:
            connection = await asyncpg.connect(store)
            try:
                return ([tuple(row) for row in await connection.fetch(query)],)
            finally:
                connection.terminate()
        except (OSError, asyncpg.InterfaceError, asyncpg.PostgresError):
            return None

    found: list[tuple[Any, ...]] = (await wait_until(read, seconds=None, pause=0.05))[0]
    return found


async def count(store: str, query: str) -> int:
    return int((await rows(store, query))[0][0])


@asynccontextmanager
async def open_fleet(
    directory: Path, store: str, *, seed: int = 0, heartbeat: float = 2.0
) -> AsyncIterator[FleetClient]:
    fleet = Fleet(store=store, pool=POOL, pools=(POOL,), heartbeat_seconds=heartbeat)
    async with open_runtime(directory / "data", model=ScriptedModel({}), serve=False, fleet=fleet) as runtime:
        yield FleetClient(runtime, store, random.Random(f"office:{seed}"))
