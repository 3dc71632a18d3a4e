"""Agents and couriers, killed around park, settle, resume: `python -m tests.support.kills.park_kills`."""

import asyncio
import random
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from msgspec import Struct

from asyncagents import Runtime, open_runtime
from asyncagents.domain.conversation.status import Busy, Status, WaitingAsync
from asyncagents.domain.id import SessionId
from asyncagents.testing.provider import Provider, Reply, ToolUse, open_provider
from tests.simulation.stage import Violation
from tests.support.kills.park_check import FINISHED, Plan, check_parked
from tests.support.kills.park_worker import Ledger, Orders, Reader, Role, What, live
from tests.support.kills.program import Summary, run_siege
from tests.support.kills.task_worker import MODEL, local_config
from tests.support.wait import wait_until

CREW: tuple[Role, ...] = ("agent", "both", "courier")
SESSIONS = 6
LOOK_SECONDS = 0.002
PATIENCE_SECONDS = 0.5
"""So long a moment is waited for before somebody is killed anyway."""
START_SECONDS = 5.0
REST_SECONDS = 30
PRELOAD = ["tests.support.kills.park_worker", "asyncagents.llm.providers"]


class Worker(Struct, frozen=True):
    orders: Orders
    process: ForkServerProcess
    line: Connection
    """It ends when it is told to, or when nobody is left who could."""

    @property
    def number(self) -> int:
        return self.orders.number

    @property
    def serves(self) -> bool:
        return self.orders.role != "courier"

    def check_silent(self) -> None:
        if said := self.orders.stderr.read_text(errors="replace"):
            raise Violation(f"worker {self.number} said:\n{said}")


class Siege:
    """One agent, one courier, and one process that is both; and whoever kills them."""

    def __init__(self, directory: Path, provider: Provider, seed: int) -> None:
        self.data = directory / "data"
        self.ledger = directory / "ledger"
        self.workers: list[Worker] = []
        self.kills = 0
        self.provider = provider
        self.rng = random.Random(f"park:{seed}")
        self._directory = directory
        self._seed = seed
        self._started = 0
        self._reader = Reader(self.ledger)
        self._ups = Reader(self.ledger)
        self._up: set[int] = set()
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload(PRELOAD)
        self.ledger.touch()

    def man(self, *roles: Role) -> None:
        """Somebody for each of these roles that nobody has."""
        for role in roles:
            if role not in (worker.orders.role for worker in self.workers):
                self._start(role)

    def _start(self, role: Role) -> None:
        self._started += 1
        orders = Orders(
            data=self.data,
            ledger=self.ledger,
            stderr=self._directory / f"worker{self._started}.err",
            url=self.provider.url,
            number=self._started,
            seed=self._seed,
            role=role,
        )
        orders.stderr.touch()
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=live, args=(orders, theirs), daemon=True)
        process.start()
        theirs.close()
        self.workers.append(Worker(orders, process, ours))

    async def kill(self, *victims: Worker) -> None:
        """Kill them at once: one that lived on would take over the sessions of the others meanwhile."""
        for victim in victims:
            with closing(Ledger(self.ledger, victim.number)) as ledger:
                ledger.write("killing")
        for victim in victims:
            victim.process.kill()
        for victim in victims:
            await self._forget_worker(victim)
            self.kills += 1
            victim.check_silent()

    async def _forget_worker(self, worker: Worker) -> None:
        await asyncio.to_thread(worker.process.join)
        worker.line.close()
        self.workers.remove(worker)

    async def kill_all(self, of: Callable[[Worker], bool]) -> None:
        await self.kill(*(worker for worker in self.workers if of(worker)))

    async def retire(self) -> None:
        """An orderly end for all."""
        for worker in list(self.workers):
            worker.line.send_bytes(b"stop")
            await self._forget_worker(worker)
            worker.check_silent()
            if worker.process.exitcode != 0:
                raise Violation(
                    f"worker {worker.number} was told to stop, and ended with {worker.process.exitcode}"
                )

    async def end(self) -> None:
        """Whatever happened: no process stays."""
        for worker in list(self.workers):
            worker.process.kill()
            await self._forget_worker(worker)

    async def strike(self) -> None:
        """Kill whoever just did something that matters, or now and then all; others take their places."""
        if self.rng.random() < 0.8:  # else perhaps while it starts
            await self._wait_until_manned()
        match self.rng.choice(["park", "settle", "acknowledge", "resume", "resume"]):
            case "park":
                victim = await self._find_writer("job")
            case "settle":
                victim = await self._find_writer("sending")
            case "acknowledge":
                await self._find_writer("acknowledged")
                victim = None
            case _:
                victim = await self._find_asker()
        agents = [worker for worker in self.workers if worker.serves]
        await asyncio.sleep(self.rng.choice([0, 0, 0.001, 0.004, 0.02]) * self.rng.random())
        if self.rng.random() < 0.15:
            await self.kill_all(lambda worker: True)
        else:
            await self.kill(victim or self.rng.choice(agents))
        self.man(*CREW)

    async def _wait_until_manned(self) -> None:
        """Until everybody is at work."""
        with suppress(TimeoutError):
            await wait_until(self._is_manned, seconds=START_SECONDS, pause=LOOK_SECONDS)

    def _is_manned(self) -> bool:
        self._up |= {line.worker for line in self._ups.news() if line.what == "up"}
        return {worker.number for worker in self.workers} <= self._up

    async def _find_writer(self, what: What) -> Worker | None:
        """Until one that lives does."""
        list(self._reader.news())

        def writer() -> Worker | None:
            living = {worker.number: worker for worker in self.workers}
            wrote = (living.get(line.worker) for line in self._reader.news() if line.what == what)
            return next((worker for worker in wrote if worker), None)

        with suppress(TimeoutError):
            return await wait_until(writer, seconds=PATIENCE_SECONDS, pause=LOOK_SECONDS)
        return None

    async def _find_asker(self) -> Worker | None:
        """Until a model request comes of one that lives; each has a key of its own."""
        keys = {f"Bearer {worker.number}": worker for worker in self.workers}
        seen, requests = self.provider.asked, self.provider.requests

        def asker() -> Worker | None:
            askers = (keys.get(request.headers["authorization"]) for request in requests[seen:])
            return next((worker for worker in askers if worker), None)

        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self.provider.wait_for(lambda: asker() is not None)
        return asker()

    async def breathe(self) -> None:
        """Who is cut off three times before it gets anywhere is given up as a crash loop, and rightly: who
        was cut off twice is left in peace until it has got on."""
        tired = "SELECT 1 FROM session WHERE state <> 'idle' AND claims > 1"
        with closing(sqlite3.connect(self.data / "asyncagents.db")) as db:
            await wait_until(lambda: not db.execute(tired).fetchone(), seconds=2 * REST_SECONDS)


class ParkClient:
    """Begins sessions, and knows what shall become of them."""

    def __init__(self, runtime: Runtime, script: dict[str, list[Reply]], rng: random.Random) -> None:
        self.plans: list[Plan] = []
        self.runtime = runtime
        self._script = script
        self._rng = rng

    async def begin(self) -> None:
        for _ in range(SESSIONS):
            session = (await self.runtime.create_session(directory="/project")).id
            chat = self._rng.random() < 0.3
            prompt = f"{'chat' if chat else 'park'} {len(self.plans)}"
            batches = tuple(
                self._rng.randrange(1, 5) for _ in range(1 if chat else self._rng.randrange(1, 4))
            )
            self._script[prompt] = [*map(self._batch, batches), self._reply(FINISHED)]
            self.plans.append(Plan(prompt, session, batches, chat))
            await self.runtime.send(session, prompt)

    def _batch(self, calls: int) -> Reply:
        uses = tuple(ToolUse("job", {"n": n, "ms": self._rng.choice([0, 0, 5, 30])}) for n in range(calls))
        return Reply(text="", tools=uses, delay=self._rng.random() * 0.03)

    def _reply(self, text: str) -> Reply:
        return Reply(text=text, chunks=4, gap=self._rng.random() * 0.02)

    async def speak(self) -> None:
        """To one that may wait, or be at work, or be done."""
        chats = [plan for plan in self.plans[-SESSIONS:] if plan.chat]
        if chats:
            plan = self._rng.choice(chats)
            self._script[said := f"news of {plan.prompt}?"] = [self._reply("Not yet.")]
            await self.runtime.send(SessionId(plan.session_id), said)

    async def until(self, there: Callable[[dict[SessionId, Status]], bool], what: str) -> None:
        async def look() -> bool:
            return there(await self.runtime.statuses())

        try:
            await wait_until(look, seconds=REST_SECONDS)
        except TimeoutError:
            raise Violation(f"{what} after {REST_SECONDS} s: {await self.runtime.statuses()}") from None

    async def rest(self) -> None:
        await self.until(lambda statuses: not statuses, "not at rest")


async def besiege(directory: Path, *, kills: int, seed: int) -> Summary:
    """So many kills, then peace and the checks; raises `Violation`."""
    began, script = time.monotonic(), {"hello": [Reply()]}  # an empty one would not be kept
    async with open_provider(script) as provider:
        siege = Siege(directory, provider, seed)
        here = open_runtime(
            siege.data, model=MODEL, config=local_config(siege.data, provider.url), serve=False
        )
        try:
            async with here as runtime:
                office = ParkClient(runtime, script, siege.rng)
                await absence(siege, office)
                while siege.kills < kills:
                    if not await runtime.statuses():
                        await office.begin()
                    await siege.strike()
                    await office.speak()
                    await siege.breathe()
                await office.rest()
            await siege.retire()
        finally:
            await siege.end()
        told = [seen.body for seen in provider.requests]
        counts = check_parked(siege.data / "asyncagents.db", siege.ledger, office.plans, told)
        counts["requests"], counts["broken off requests"] = provider.asked, provider.disconnects
    return Summary(siege.kills, time.monotonic() - began, dict(counts))


async def absence(siege: Siege, office: ParkClient) -> None:
    """All wait; whoever could resume them dies; results come to one that only signals; then agents start."""
    siege.man("agent")
    await office.begin()
    await office.until(_all_wait, "not all wait")
    await siege.kill_all(lambda worker: True)
    asked = siege.provider.asked
    siege.man("courier")
    await office.until(lambda found: all(isinstance(each, Busy) for each in found.values()), "unanswered")
    await siege.kill_all(lambda worker: True)
    if siege.provider.asked != asked:
        raise Violation("somebody asked the model though nobody served")
    if len(await office.runtime.statuses()) != SESSIONS:
        raise Violation(f"not all of {SESSIONS} sessions want to go on: {await office.runtime.statuses()}")
    siege.man(*CREW)


def _all_wait(found: dict[SessionId, Status]) -> bool:
    return len(found) == SESSIONS and all(isinstance(each, WaitingAsync) for each in found.values())


if __name__ == "__main__":
    sys.exit(run_siege(besiege, "kills around park, settle and resume"))
