"""The backend of a runtime: an SQLite file of this machine, or a PostgreSQL database of many processes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.config.fleet import Fleet
from asyncagents.domain.clock import Clock, Rng
from asyncagents.domain.id import Ids, OwnerId, SessionId
from asyncagents.domain.why import FILE_POOL
from asyncagents.engine.dispatcher import Dispatcher
from asyncagents.engine.event.bus import Bus
from asyncagents.engine.event.relay import Relay, RelayChannel
from asyncagents.engine.runtime.answers import AnswerWaiters
from asyncagents.errors import ConfigError
from asyncagents.llm.limits import Concurrency, Limits
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.owners import FlockOwners, Owners, check_writable
from asyncagents.store.tx import Database

POOL = FILE_POOL
POLL_SECONDS = 0.075
JUMP_MS = 1_000
FLEET_POLL_SECONDS = 1.0
"""A fallback for missed notifications of commits."""
MISSING = (
    "ASYNCAGENTS_STORE names a PostgreSQL database, and its driver is not installed: "
    "run `pip install 'asyncagents[postgres]'`"
)


class PolledDatabase(Database, Protocol):
    def poll(self) -> None:
        """Read the commits of other processes."""
        ...


class SessionQueue(Protocol):
    async def work(self, run: Callable[[SessionId], Awaitable[bool]]) -> None:
        """Run queued sessions, forever. `run` returns False if another process must run the session."""
        ...

    def stop(self) -> None:
        """Take no further sessions."""
        ...


class PeerCallbacks(Struct):
    """Callbacks between a process and its peers on one database; `connect_peers` sets the runtime's."""

    running_sessions: Callable[[], int] = lambda: 0
    capacity: Callable[[], int] = lambda: 0
    """How many sessions this process can run; 0: it runs none."""
    has_listeners: Callable[[], bool] = lambda: False
    has_waiters: Callable[[], bool] = lambda: False
    """Whether a caller waits for an answer in this process."""
    on_peer_died: Callable[[], None] = lambda: None
    """Called when a peer died: its sessions must be claimed."""
    on_connection_change: Callable[[bool], None] = lambda cut: None
    """Called with True when peers may consider this process dead, with False when the connection is back."""
    peer_count: Callable[[], int] = lambda: 1
    """The number of processes that share the providers' limits."""
    is_served: Callable[[str], bool] = lambda pool: False
    """Whether a process runs the sessions of a pool; of any pool, if the name is empty."""


class Backend(Struct, frozen=True):
    """The database, owners, clock and ids that a runtime is built on; a simulation has its own."""

    database: PolledDatabase
    owners: Owners
    clock: Clock
    rng: Rng
    ids: Ids
    """Shared by all parts, since messages are ordered by their ids."""
    poll_seconds: float = POLL_SECONDS
    pool: str = POOL
    """The pool of sessions created here."""
    pools: tuple[str, ...] = (POOL,)
    """The pools whose sessions run here."""
    max_sessions: int = 0
    """The most sessions that run here at once; 0: no limit."""
    session_queue: SessionQueue | None = None
    """None: the process that receives the wake of a session runs it."""
    peers: PeerCallbacks = field(default_factory=PeerCallbacks)
    find_deaths: Callable[[], bool] = lambda: False
    """Whether a peer has died since the last call; for a database that does not report deaths itself."""
    wire: RelayChannel | None = None

    def limits(self, concurrency: Concurrency) -> Limits:
        """Build the model limits, shared with the other processes."""
        return Limits(
            clock=self.clock, rng=self.rng, concurrency=concurrency, peer_count=self.peers.peer_count
        )


@asynccontextmanager
async def open_backend(directory: Path, fleet: Fleet | None) -> AsyncIterator[Backend]:
    opened = open_sqlite_backend(directory) if fleet is None else open_postgres_backend(fleet)
    async with opened as backend:
        yield backend


@asynccontextmanager
async def open_sqlite_backend(directory: Path) -> AsyncIterator[Backend]:
    clock, rng = SystemClock(), SystemRng()
    clock.check()
    ids = Ids(clock, rng)
    with check_writable(directory):
        owners = FlockOwners(directory / "owners", f"{rng.below(2**64):016x}")
    try:
        async with open_sqlite(directory / "asyncagents.db", clock=clock, rng=rng, ids=ids) as database:
            yield Backend(database, owners, clock, rng, ids, find_deaths=owners.find_deaths)
    finally:
        owners.close()


@asynccontextmanager
async def open_postgres_backend(fleet: Fleet) -> AsyncIterator[Backend]:
    try:
        from asyncagents.store.postgres.clock import StoreClock  # start-up
        from asyncagents.store.postgres.control_connection import open_control_connection  # start-up
        from asyncagents.store.postgres.database import open_postgres  # start-up
        from asyncagents.store.postgres.wake_queue import PgWakeQueue, enqueue_wakes  # start-up
        from asyncagents.store.postgres.workers import Worker, Workers  # start-up
    except ModuleNotFoundError as error:
        raise ConfigError(f"{MISSING} ({error})") from error
    own = SystemClock()
    own.check()
    clock, rng, peers = StoreClock(own), SystemRng(), PeerCallbacks()
    ids, me, patience = Ids(clock, rng), OwnerId(f"{rng.below(2**64):016x}"), fleet.heartbeat_seconds
    workers = Workers(Worker(me, fleet.kind, fleet.pools, patience), clock)
    async with (
        open_postgres(fleet.store, clock=clock, rng=rng, ids=ids, size=fleet.connections) as database,
        open_control_connection(
            fleet.store, rng, workers, patience=patience, check=database.identity.check
        ) as control,
    ):
        database.before_commit, database.on_commit = enqueue_wakes, control.announce_commit
        control.on_news = database.poll
        _connect_workers(workers, database.remote_commits, peers)
        await control.wait_until_ready()
        queue = PgWakeQueue(fleet.store, rng, pools=fleet.pools, most=fleet.concurrency, heartbeat=patience)
        queue.peers = lambda: workers.peers
        control.on_jobs, control.on_cut = queue.hint, lambda cut: _report_connection(peers, queue, cut)
        backend = Backend(database, workers, clock, rng, ids, session_queue=queue, peers=peers, wire=control)
        yield _with_pools(backend, fleet)


def _with_pools(backend: Backend, fleet: Fleet) -> Backend:
    return replace(
        backend,
        poll_seconds=FLEET_POLL_SECONDS,
        pool=fleet.pool,
        pools=fleet.pools,
        max_sessions=fleet.concurrency,
    )


def _report_connection(peers: PeerCallbacks, queue: Any, cut: bool) -> None:
    peers.on_connection_change(cut)
    if cut:
        queue.disconnect()


def _connect_workers(workers: Any, remote_commits: Any, peers: PeerCallbacks) -> None:
    """Connect the database's `workers` to the callbacks, which are looked up when called."""
    workers.runs, workers.capacity = lambda: peers.running_sessions(), lambda: peers.capacity()
    workers.listens, workers.on_death = lambda: peers.has_listeners(), lambda: peers.on_peer_died()
    remote_commits.has_listeners = lambda: peers.has_listeners()
    remote_commits.has_waiters = lambda: peers.has_waiters()
    peers.peer_count, peers.is_served = lambda: workers.peers, workers.is_served


def connect_peers(
    backend: Backend, dispatcher: Dispatcher, limits: Limits, *, bus: Bus, answers: AnswerWaiters
) -> None:
    """Connect the runtime to the other processes of the same database, if there are any."""

    def on_peer_death() -> None:
        dispatcher.request_sweep()
        limits.redistribute_slots()

    bond = backend.peers
    bond.running_sessions, bond.capacity = (
        lambda: dispatcher.live,
        lambda: backend.max_sessions if dispatcher.serves else 0,
    )
    bond.has_listeners, bond.has_waiters = lambda: bus.has_listeners, lambda: answers.has_waiters
    bond.on_connection_change, bond.on_peer_died = dispatcher.set_disconnected, on_peer_death
    if backend.wire is not None:
        bus.attach_relay(Relay(bus, backend.wire))


async def run_session_queue(jobs: SessionQueue, dispatcher: Dispatcher) -> None:
    """Run sessions of the queue, if this process serves all sessions."""
    dispatcher.on_drain = jobs.stop
    if await dispatcher.wait_until_serving() is None:
        await jobs.work(dispatcher.run_offered)


async def poll_forever(backend: Backend, clock_was_set: Callable[[], None]) -> None:
    """Poll for commits and deaths of other processes.

    `clock_was_set` is called when the clock jumps: deadlines move.
    """
    before = _offset(backend.clock)
    while True:
        await asyncio.sleep(backend.poll_seconds)
        backend.database.poll()
        if backend.find_deaths():
            backend.peers.on_peer_died()
        now = _offset(backend.clock)
        if abs(now - before) > JUMP_MS:
            clock_was_set()
        before = now


def _offset(clock: Clock) -> float:
    """Return the difference in ms between the clock and the loop's monotonic time."""
    return clock.now() - 1000 * asyncio.get_running_loop().time()


def make_data_directory(directory: Path) -> Path:
    """Create a data directory with mode 0700; an existing one stays unchanged. Raises `StoreError`."""
    with check_writable(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory
