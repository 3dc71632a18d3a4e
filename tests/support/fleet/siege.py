"""Signals by the thousand while workers are killed and stopped, or their database is:

`python -m tests.support.fleet.siege --signals 3000 --sessions 200 --restarts 20 --crowd 10000 --wakes 300`.
"""

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from asyncagents.domain.id import CallId, SessionId
from asyncagents.errors import StoreError
from tests.simulation.hunt import reason
from tests.simulation.stage import Violation
from tests.support.fleet.check import check_fleet
from tests.support.fleet.crew import Crew, FleetClient, Worker, count, open_crew, open_fleet
from tests.support.fleet.turn import fairness, latency
from tests.support.fleet.worker import Reader
from tests.support.kills.program import Summary
from tests.support.postgres.database import a_database
from tests.support.postgres.server import Server, open_server
from tests.support.wait import wait_until

WORKERS = 3
SENDERS = 12
BREATH_SECONDS = 20.0
STUCK_SECONDS = 300.0
STRIKES = ("kill", "kill", "kill", "stop for too long", "stop for too long", "stop for a moment")
TIRED = "SELECT COUNT(*) FROM session WHERE state <> 'idle' AND claims > 1"
WISHES = ("say", "say", "say", "say", "say", "pay 20", "pay 200", "put 60", "job 0", "job 60")


class Senders:
    """Prompts from all sides, some of them twice; and the results of all jobs that were begun."""

    def __init__(self, to: FleetClient, ledger: Path) -> None:
        self._office = to
        self._reader = Reader(ledger)
        self._left = 0
        self._jobs = 0
        """Those that were asked for."""
        self._begun: set[CallId] = set()

    async def send(self, signals: int, *, seconds: float) -> None:
        """In about that time; returns when the last one is acknowledged, and each job has its result."""
        self._left = signals
        try:
            async with asyncio.timeout(seconds + STUCK_SECONDS):
                await self._send(signals, seconds)
        except TimeoutError:
            raise Violation(f"stuck: {self._left} signals and {self._jobs} jobs were left") from None

    async def _send(self, signals: int, seconds: float) -> None:
        async with asyncio.TaskGroup() as group:
            pause = seconds * SENDERS / signals
            prompting = [group.create_task(self._prompt(pause)) for _ in range(SENDERS)]
            answering = group.create_task(self._answer_jobs())
            await asyncio.wait(prompting)
            await wait_until(lambda: len(self._office.results) >= self._jobs, seconds=None)
            answering.cancel()

    async def _prompt(self, pause: float) -> None:
        rng = self._office.rng
        while self._left > 0:
            wish = rng.choice(WISHES)
            is_job = wish.startswith("job")
            self._left -= 1 + is_job
            self._jobs += is_job
            session = rng.randrange(len(self._office.sessions))
            await self._office.prompt(session, wish, twice=rng.random() < 0.15)
            await asyncio.sleep(pause * 2 * rng.random())

    async def _answer_jobs(self) -> None:
        """Whose process died before it could begin one is told all the same: it waits for that."""
        number = {session_id: number for number, session_id in enumerate(self._office.sessions)}
        async with asyncio.TaskGroup() as group:
            while True:
                for call_id, session_id in await wait_until(self._new_jobs, seconds=None, pause=0.05):
                    group.create_task(self._submit(call_id, number[session_id]))

    async def _new_jobs(self) -> list[tuple[CallId, SessionId]]:
        jobs = [line for line in self._reader.news() if line.what == "job"]
        found = {CallId(line.call): SessionId(line.session) for line in jobs}
        with suppress(StoreError):
            waiting = await self._office.runtime.async_tools.waiting_calls()
            found |= {call.id: call.session_id for call in waiting}
        new = [(call_id, found[call_id]) for call_id in sorted(found.keys() - self._begun)]
        self._begun |= found.keys()
        return new

    async def _submit(self, call_id: CallId, session: int) -> None:
        rng = self._office.rng
        await asyncio.sleep(rng.choice([0, 0, 0.1, 0.5]) * rng.random())
        await self._office.submit(call_id, session, twice=rng.random() < 0.2)


class Striker:
    """Kills one, with another one started in its place; or stops one, for a while or for too long."""

    def __init__(self, workers: Crew, seed: int) -> None:
        self._crew = workers
        self._rng = random.Random(f"strikes:{seed}")
        self._stopped: set[int] = set()
        self._first = ["kill", "stop for too long"]
        """Whatever chance brings after that."""
        self.counts: Counter[str] = Counter()

    async def strike_on(self, until: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            while self._first or not until.is_set():
                await asyncio.sleep(0.3 + self._rng.random() * self._crew.heartbeat / 2)
                await self._breathe()
                awake = [each for each in self._crew.workers if each.number not in self._stopped]
                if len(awake) < 2 or (until.is_set() and not self._first):
                    continue
                victim = self._rng.choice(awake)
                how = self._first.pop() if self._first else self._rng.choice(STRIKES)
                if how == "kill":
                    await self._crew.kill(victim)
                    await self._crew.start(wait=False)
                    self.counts["kills"] += 1
                else:
                    group.create_task(self._stop(victim, long=how == "stop for too long"))

    async def _stop(self, victim: Worker, *, long: bool) -> None:
        self.counts["stopped for too long" if long else "stopped for a moment"] += 1
        self._stopped.add(victim.number)
        victim.signal(signal.SIGSTOP)
        try:
            times = (1.2, 1.8) if long else (0.1, 0.4)
            await asyncio.sleep(self._crew.heartbeat * self._rng.uniform(*times))
        finally:
            victim.signal(signal.SIGCONT)
            self._stopped.discard(victim.number)

    async def _breathe(self) -> None:
        """Who is cut off three times before it gets anywhere is given up as a crash loop, and rightly: who
        was cut off twice is left in peace until it has got on."""
        with suppress(TimeoutError):
            await wait_until(self._has_breath, seconds=BREATH_SECONDS)

    async def _has_breath(self) -> bool:
        return not await count(self._crew.store, TIRED)


async def stress(
    directory: Path, server: Server, *, signals: int, sessions: int, seconds: float, seed: int = 0
) -> Summary:
    """Signals for so many seconds, or as long as they take; then peace and the checks. Raises `Violation`."""
    began = time.monotonic()
    async with (
        a_database(server) as store,
        open_crew(directory, store, seed=seed) as workers,
        open_fleet(directory, store, seed=seed) as desk,
    ):
        await asyncio.gather(*(workers.start() for _ in range(WORKERS)))
        await desk.open(sessions)
        striker, over = Striker(workers, seed), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(striker.strike_on(over))
            sending = time.monotonic()
            await Senders(desk, workers.ledger).send(signals, seconds=seconds)
            sent = time.monotonic() - sending
            over.set()
        await desk.rest(workers)
        await workers.retire()
        counts = await check_fleet(desk, workers) + striker.counts
        counts["seconds of sending"] = round(sent)
    return Summary(workers.kills, time.monotonic() - began, dict(counts))


async def restarts(
    directory: Path, server: Server, *, restarts: int, sessions: int = 20, signals: int = 40, seed: int = 0
) -> Summary:
    """The database dies so often, with `signals` on their way each time. Raises `Violation`."""
    began = time.monotonic()
    async with (
        a_database(server) as store,
        open_crew(directory, store, seed=seed) as workers,
        open_fleet(directory, store, seed=seed) as desk,
    ):
        await asyncio.gather(*(workers.start() for _ in range(2)))
        await desk.open(sessions)
        senders, slowest = Senders(desk, workers.ledger), 0.0
        for _ in range(restarts):
            async with asyncio.TaskGroup() as group:
                group.create_task(senders.send(signals, seconds=0.1))  # many at once: some are cut in COMMIT
                await asyncio.sleep(0.1 + 0.3 * desk.rng.random())
                before = time.monotonic()
                await asyncio.to_thread(server.restart, "immediate")
                slowest = max(slowest, time.monotonic() - before)
        await desk.rest(workers)
        await workers.retire()
        counts = await check_fleet(desk, workers)
        counts["restarts"], counts["slowest restart in ms"] = restarts, round(slowest * 1000)
    return Summary(restarts, time.monotonic() - began, dict(counts))


async def _run(of: argparse.Namespace, directory: Path) -> list[object]:
    done: list[object] = []
    with open_server() as server:
        if of.signals:
            done.append(
                await stress(
                    _folder(directory, "stress"),
                    server,
                    signals=of.signals,
                    sessions=of.sessions,
                    seconds=of.seconds,
                    seed=of.seed,
                )
            )
        if of.wakes:
            done.append(await latency(_folder(directory, "wakes"), server, signals=of.wakes))
        if of.crowd:
            place, served = _folder(directory, "crowd"), of.crowd // 15
            done.append(await fairness(place, server, crowd=of.crowd, served=served, concurrency=16))
    if of.restarts:
        with open_server(durable=True) as server:
            place = _folder(directory, "restarts")
            done.append(await restarts(place, server, restarts=of.restarts, seed=of.seed))
    return done


def _folder(directory: Path, name: str) -> Path:
    (made := directory / name).mkdir()
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=0)
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0, help="at least so long signals are sent")
    parser.add_argument("--restarts", type=int, default=0, help="of the database, with signals on their way")
    parser.add_argument("--wakes", type=int, default=0, help="of sessions that rest: how long each takes")
    parser.add_argument("--crowd", type=int, default=0, help="sessions that wait before another project's")
    parser.add_argument("--seed", type=int, default=0)
    directory = Path(tempfile.mkdtemp(prefix="fleet"))
    try:
        done = asyncio.run(_run(parser.parse_args(), directory))
    except (Violation, BaseExceptionGroup) as error:
        sys.stdout.write(f"violation: {reason(error)!r}; see {directory}\n")
        return 1
    shutil.rmtree(directory)
    for each in done:
        sys.stdout.write(f"{each}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
