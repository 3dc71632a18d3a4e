"""One turn at a time, and what becomes of it: its worker stops, is cut off, or has others ahead of it."""

import asyncio
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from asyncagents.domain.call.call import IN_DOUBT, Failed, Settled
from asyncagents.domain.id import MessageId
from tests.simulation.stage import Violation
from tests.support.fleet.check import check_fleet, read_history
from tests.support.fleet.crew import AT_ONCE, REST_SECONDS, START_SECONDS, FleetClient, open_crew, open_fleet
from tests.support.fleet.worker import Line, enough, now
from tests.support.postgres.database import a_database, proxy
from tests.support.postgres.server import Server
from tests.support.wait import wait_until

HEARTBEAT = 2.0


class Latency(Struct, frozen=True):
    """From the moment a signal was acknowledged to the claim of its session, in ms."""

    p50: float
    p99: float
    most: float


async def latency(directory: Path, server: Server, *, signals: int, pause: float = 0.03) -> Latency:
    """To sessions that rest, by one who runs nothing: whoever claims them is another process."""
    async with (
        a_database(server) as store,
        open_crew(directory, store) as workers,
        open_fleet(directory, store) as desk,
    ):
        await asyncio.gather(workers.start(), workers.start())
        await desk.open(signals)
        sent: dict[str, int] = {}
        for number, session_id in enumerate(desk.sessions):
            sent[session_id] = (await desk.prompt(number)).at
            await asyncio.sleep(pause)
        await desk.rest(workers)
        claimed = {line.session: line.at for line in reversed(workers.lines("claimed"))}
        waits = sorted(max(0.0, (claimed[each] - at) / 1000) for each, at in sent.items())
    return Latency(waits[len(waits) // 2], waits[int(len(waits) * 0.99)], waits[-1])


class Handover(Struct, frozen=True):
    stale: int
    """Writes of the first worker that were refused."""
    finished_by: int
    doubted: int


async def handover(directory: Path, server: Server) -> Handover:
    """W1 stops in a tool, W2 takes over, W1 wakes up and writes, W2 is killed, W3 finishes."""
    async with (
        a_database(server) as store,
        open_crew(directory, store, heartbeat=HEARTBEAT) as workers,
        open_fleet(directory, store) as desk,
    ):
        await desk.open()
        first = await workers.start()
        await desk.prompt(0, "freeze")
        await workers.until("effect", first)
        second = await workers.start()
        await desk.prompt(0, "again")  # what W2 is killed in
        await workers.until("tick", second)
        first.signal(signal.SIGUSR1)  # it takes nothing new: only its late write is wanted
        first.signal(signal.SIGCONT)
        await workers.until("stale", first)
        await workers.until("drained", first)
        await workers.kill(second)
        third = await workers.start()
        await workers.until("tick", third)
        enough(workers.ledger).touch()
        await desk.rest(workers)
        await workers.retire()
        await check_fleet(desk, workers)
        history = await read_history(store, workers)
        (frozen,) = [call for call in history.calls.values() if call.tool == "freeze"]
        doubted = isinstance(frozen.state, Settled) and frozen.state.result == Failed(
            IN_DOUBT, metadata={"inDoubt": True}
        )
        asked = [line for line in history.lines if line.what == "asked"]
        stale = sum(line.what == "stale" and line.worker == first.number for line in history.lines)
    return Handover(stale, asked[-1].worker, doubted)


class Partition(Struct, frozen=True):
    """Seconds since the network failed."""

    stopped: float
    """What the worker behind it did to the world."""
    taken_over: float
    back_after: float
    """From the end of the partition to the next turn that it takes."""


async def partition(directory: Path, server: Server) -> Partition:
    """W1 is cut off in a tool, W2 goes on; when W1 is back and W2 is gone it works as before."""
    async with (
        a_database(server) as store,
        proxy(server) as network,
        open_crew(directory, store, heartbeat=HEARTBEAT) as workers,
        open_fleet(directory, store) as desk,
    ):
        await desk.open()
        first = await workers.start(store=network.dsn(urlsplit(store).path.lstrip("/")))
        await desk.prompt(0, "tick")
        await workers.until("tick", first)
        second = await workers.start()
        frozen = now()
        network.freeze()
        taken = await workers.until("claimed", second)
        await desk.rest(workers)
        await asyncio.sleep(HEARTBEAT / 2)  # it stays away for longer than it takes the others
        healed = now()
        network.heal()
        ticks = workers.lines("tick", first)
        await workers.kill(second)
        enough(workers.ledger).touch()
        await desk.prompt(0, "again")
        back = await workers.until("claimed", first, lambda line: line.at > healed)
        await desk.rest(workers)
        await workers.retire()
        await check_fleet(desk, workers)
        if workers.lines("tick", first) != ticks:
            raise Violation("the tool that was cut off went on after the partition")
    return Partition(
        stopped=(ticks[-1].at - frozen) / 1e6,
        taken_over=(taken.at - frozen) / 1e6,
        back_after=(back.at - healed) / 1e6,
    )


class Fairness(Struct, frozen=True):
    ahead: int
    """Sessions of the other project that began to be run since the single one was woken."""
    left: int
    """Those that still waited then."""


async def fairness(
    directory: Path, server: Server, *, crowd: int, served: int = 1, concurrency: int = 4
) -> Fairness:
    """One project has many sessions that wait; when some were served another one wants something."""
    async with (
        a_database(server) as store,
        open_crew(directory, store) as workers,
        open_fleet(directory, store) as desk,
    ):
        await desk.open(crowd, directory="/crowd")
        await desk.open(directory="/single")
        for first in range(0, crowd, AT_ONCE):
            await asyncio.gather(*map(desk.prompt, range(first, min(first + AT_ONCE, crowd))))
        await workers.start(concurrency=concurrency, think=0.05)
        await wait_until(lambda: len(workers.lines("claimed")) >= served, seconds=None, pause=0.1)
        woken = (await desk.prompt(crowd)).at
        single = desk.sessions[crowd]
        mine = await workers.until("claimed", where=lambda line: line.session == single)
        claimed = workers.lines("claimed")
        before = {line.session for line in claimed if line.at < woken}
        since = {line.session for line in claimed if woken <= line.at < mine.at}
    return Fairness(ahead=len(since - before), left=crowd - len(before | since))


async def interlude(directory: Path, server: Server) -> float:
    """The database starts anew while a turn is under way that takes long: seconds until the same worker,
    which has no other to help it, takes up what comes next. Raises `Violation` if it does not until the turn
    is over, or until somebody would count as dead."""
    async with (
        a_database(server) as store,
        open_crew(directory, store, heartbeat=2 * START_SECONDS) as workers,
        open_fleet(directory, store) as desk,
    ):
        await desk.open(2)
        await workers.start()
        await desk.prompt(0, "tick")
        await workers.until("tick")
        await asyncio.to_thread(server.restart, "immediate")
        sent = (await desk.prompt(1)).at
        taken = await workers.until("claimed", where=lambda line: line.session == desk.sessions[1])
        enough(workers.ledger).touch()
        await desk.rest(workers)
        await workers.retire()
        await check_fleet(desk, workers)
        if workers.lines("cut short"):
            raise Violation("the turn that was under way did not go on")
    return (taken.at - sent) / 1e6


class Shares(Struct, frozen=True):
    """Turns that began in the same time."""

    crowd: int
    steady: int


async def shares(directory: Path, server: Server, *, crowd: int, steady: int, turns: int) -> Shares:
    """One project has many sessions that wait; another has few, which are spoken to as soon as they answer,
    and would be enough to keep the worker busy. Until these have had so many turns."""
    async with (
        a_database(server) as store,
        open_crew(directory, store) as workers,
        open_fleet(directory, store) as desk,
    ):
        await desk.open(steady, directory="/steady")
        await desk.open(crowd, directory="/crowd")
        for number in range(steady, steady + crowd):
            await desk.prompt(number)
        async with asyncio.TaskGroup() as group:
            speaking = [group.create_task(_speak_on(desk, number)) for number in range(steady)]
            await workers.start(concurrency=max(2, steady // 2), think=0.1)
            few = set(desk.sessions[:steady])

            def begun() -> list[bool] | None:
                found = [line.session in few for line in workers.lines("claimed")]
                return found if found.count(True) >= turns else None

            seen = await wait_until(begun, seconds=REST_SECONDS, pause=0.1)
            for each in speaking:
                each.cancel()
    return Shares(crowd=seen.count(False), steady=seen.count(True))


async def _speak_on(desk: FleetClient, number: int) -> None:
    while True:
        message_id = MessageId((await desk.prompt(number)).id)
        await wait_until(partial(desk.runtime.answer_to, message_id), seconds=None)


async def burst(directory: Path, server: Server) -> float:
    """A session is spoken to many times before it is run, and its turn takes long: seconds until another
    one is run that was woken after it. Raises `Violation` if it is not while that turn lasts."""
    async with (
        a_database(server) as store,
        open_crew(directory, store) as workers,
        open_fleet(directory, store) as desk,
    ):
        await desk.open(2)
        await desk.prompt(0, "tick")
        for _ in range(20):
            await desk.prompt(0)
        await desk.prompt(1)
        up = await workers.start(concurrency=4)
        began = (await workers.until("up", up)).at
        taken = await workers.until("claimed", where=lambda line: line.session == desk.sessions[1])
        enough(workers.ledger).touch()
        await desk.rest(workers)
        await workers.retire()
        await check_fleet(desk, workers)
    return (taken.at - began) / 1e6


async def fill_places(directory: Path, server: Server, *, places: int = 2) -> float:
    """A worker dies when the only other one has no place left: seconds until all of its turns go on.
    Raises `Violation` if they do not while the others last."""
    async with (
        a_database(server) as store,
        open_crew(directory, store, heartbeat=HEARTBEAT) as workers,
        open_fleet(directory, store) as desk,
    ):
        await desk.open(2 * places)
        first = await workers.start(concurrency=places)
        for number in range(places):
            await desk.prompt(number, "again")
        for number in range(places):
            await workers.until("tick", first, _ticks(desk, number))
        second = await workers.start(concurrency=places)
        for number in range(places, 2 * places):
            await desk.prompt(number, "again")
        for number in range(places, 2 * places):
            await workers.until("tick", second, _ticks(desk, number))
        died = now()
        await workers.kill(first)
        taken = [await workers.until("tick", second, _ticks(desk, number)) for number in range(places)]
        enough(workers.ledger).touch()
        await desk.rest(workers)
        await workers.retire()
        await check_fleet(desk, workers)
    return (max(line.at for line in taken) - died) / 1e6


def _ticks(desk: FleetClient, number: int) -> Callable[[Line], bool]:
    return lambda line: line.session == desk.sessions[number]
