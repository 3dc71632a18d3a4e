"""What a runtime stands on: one file of this machine, or a database that many processes share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field

from asyncagents.config.fleet import Fleet
from asyncagents.config.system import SystemClock, SystemRng
from asyncagents.domain.id import Ids, OwnerId, SessionId
from asyncagents.domain.port import Clock, Rng
from asyncagents.domain.why import FILE_POOL
from asyncagents.engine.answers import Answers
from asyncagents.engine.bus import Bus
from asyncagents.engine.dispatcher import Dispatcher
from asyncagents.engine.relay import Relay, Wire
from asyncagents.errors import ConfigError
from asyncagents.llm.limits import Concurrency, Limits
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.owners import FlockOwners, Owners
from asyncagents.store.tx import Database

POOL = FILE_POOL
POLL_SECONDS = 0.075
JUMP_MS = 1_000
FLEET_POLL_SECONDS = 1.0
"""Others tell when they have committed; this is for what was not heard."""
MISSING = (
    "ASYNCAGENTS_STORE names a database, and what speaks to it is not installed: "
    "run `pip install 'asyncagents[postgres]'`"
)


class PolledDatabase(Database, Protocol):
    def poll(self) -> None:
        """Look for what other processes committed."""
        ...


class Jobs(Protocol):
    async def work(self, run: Callable[[SessionId], Awaitable[bool]]) -> None:
        """Run sessions that wait for somebody with room, for ever. False: somebody else is to run it."""
        ...

    def stop(self) -> None:
        """Take no more."""
        ...


class Bond(Struct):
    """What ties a process to the others that use the same database; the runtime says what it is to know."""

    runs: Callable[[], int] = lambda: 0
    capacity: Callable[[], int] = lambda: 0
    """How many could be; 0: it runs none."""
    listens: Callable[[], bool] = lambda: False
    waits: Callable[[], bool] = lambda: False
    """Whether anybody waits for an answer here."""
    died: Callable[[], None] = lambda: None
    """Somebody has: what he did is to be taken up."""
    cut: Callable[[bool], None] = lambda cut: None
    """True: others may think that we have died. False: again they do not."""
    fellows: Callable[[], int] = lambda: 1
    """How many share what a provider allows."""
    served: Callable[[str], bool] = lambda pool: False
    """Whether somebody is at work on the sessions of a pool; of whichever, if it has no name."""


class World(Struct, frozen=True):
    """A simulation brings its own."""

    database: PolledDatabase
    owners: Owners
    clock: Clock
    rng: Rng
    ids: Ids
    """One maker of ids for all: messages are read in the order of their ids."""
    poll_seconds: float = POLL_SECONDS
    pool: str = POOL
    """Of sessions that are made here."""
    pools: tuple[str, ...] = (POOL,)
    """Whose sessions are run here."""
    most: int = 0
    """Sessions at work here at once; 0: as many as there may be."""
    jobs: Jobs | None = None
    """None: whoever hears that a session was woken runs it."""
    bond: Bond = field(default_factory=Bond)
    wire: Wire | None = None

    def limits(self, concurrency: Concurrency) -> Limits:
        """What providers allow, shared with the other processes."""
        fellows = self.bond.fellows
        return Limits(clock=self.clock, rng=self.rng, concurrency=concurrency, fellows=fellows)


@asynccontextmanager
async def open_world(directory: Path, fleet: Fleet | None) -> AsyncIterator[World]:
    opened = open_alone(directory) if fleet is None else open_shared(fleet)
    async with opened as world:
        yield world


@asynccontextmanager
async def open_alone(directory: Path) -> AsyncIterator[World]:
    clock, rng = SystemClock(), SystemRng()
    clock.check()
    ids = Ids(clock, rng)
    owners = FlockOwners(directory / "owners", f"{rng.below(2**64):016x}")
    try:
        async with open_sqlite(directory / "asyncagents.db", clock=clock, rng=rng, ids=ids) as database:
            yield World(database, owners, clock, rng, ids)
    finally:
        owners.close()


@asynccontextmanager
async def open_shared(fleet: Fleet) -> AsyncIterator[World]:
    try:
        from asyncagents.store.postgres.clock import StoreClock  # start-up
        from asyncagents.store.postgres.database import open_postgres  # start-up
        from asyncagents.store.postgres.jobs import Jobs, enqueue  # start-up
        from asyncagents.store.postgres.line import open_line  # start-up
        from asyncagents.store.postgres.workers import Worker, Workers  # start-up
    except ModuleNotFoundError as error:
        raise ConfigError(f"{MISSING} ({error})") from error
    own = SystemClock()
    own.check()
    clock, rng, bond = StoreClock(own), SystemRng(), Bond()
    ids, me, patience = Ids(clock, rng), OwnerId(f"{rng.below(2**64):016x}"), fleet.heartbeat_seconds
    workers = Workers(Worker(me, fleet.kind, fleet.pools, patience), clock)
    async with (
        open_postgres(fleet.store, clock=clock, rng=rng, ids=ids, size=fleet.connections) as database,
        open_line(fleet.store, rng, workers, patience=patience, check=database.standing.check) as line,
    ):
        database.before_commit, database.committed = enqueue, line.committed
        database.others.wanted, database.others.urgent = lambda: bond.listens(), lambda: bond.waits()
        line.on_news = database.poll
        _introduce(workers, bond)
        await line.begun()
        jobs = Jobs(fleet.store, rng, pools=fleet.pools, most=fleet.concurrency, heartbeat=patience)
        jobs.fellows = lambda: workers.fellows
        line.on_jobs, line.on_cut = jobs.hint, lambda cut: _cut(bond, jobs, cut)
        yield World(
            database,
            workers,
            clock,
            rng,
            ids,
            poll_seconds=FLEET_POLL_SECONDS,
            pool=fleet.pool,
            pools=fleet.pools,
            most=fleet.concurrency,
            jobs=jobs,
            bond=bond,
            wire=line,
        )


def _cut(bond: Bond, jobs: Any, cut: bool) -> None:
    bond.cut(cut)
    if cut:
        jobs.cut()


def _introduce(workers: Any, bond: Bond) -> None:
    """`workers`: those of the database. What they ask is asked when the runtime has said whom."""
    workers.runs, workers.capacity = lambda: bond.runs(), lambda: bond.capacity()
    workers.listens, workers.died = lambda: bond.listens(), lambda: bond.died()
    bond.fellows, bond.served = lambda: workers.fellows, workers.serve


def tie(world: World, dispatcher: Dispatcher, limits: Limits, *, bus: Bus, answers: Answers) -> None:
    """To the other processes of the same database, if there are any."""

    def died() -> None:
        dispatcher.look_again()
        limits.share_anew()

    bond = world.bond
    bond.runs, bond.capacity = lambda: dispatcher.live, lambda: world.most if dispatcher.serves else 0
    bond.listens, bond.waits = lambda: bus.is_heard, lambda: answers.are_waited_for
    bond.cut, bond.died = dispatcher.cut, died
    if world.wire is not None:
        bus.pass_on(Relay(bus, world.wire))


async def work_on(jobs: Jobs, dispatcher: Dispatcher) -> None:
    """All that the queue has, if this process works on all."""
    dispatcher.on_drain = jobs.stop
    if await dispatcher.serving() is None:
        await jobs.work(dispatcher.offered)


async def poll_forever(world: World, clock_was_set: Callable[[], None]) -> None:
    """Look for what others committed, and say when the clock jumps: what is due was reckoned by it."""
    before = _offset(world.clock)
    while True:
        await asyncio.sleep(world.poll_seconds)
        world.database.poll()
        now = _offset(world.clock)
        if abs(now - before) > JUMP_MS:
            clock_was_set()
        before = now


def _offset(clock: Clock) -> float:
    """Between the time of day and the time of the loop, which nobody sets; in ms."""
    return clock.now() - 1000 * asyncio.get_running_loop().time()


def make_directory(directory: Path) -> Path:
    """Make a data directory that is its owner's alone; one that is there stays as it is."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory
