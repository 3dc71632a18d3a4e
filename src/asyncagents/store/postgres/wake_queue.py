"""A queue of wakes for processes with capacity: a job names a session, and is a hint, never the truth."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib.metadata import version
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import asyncpg
from pgqueuer import QueueManager, RetryRequested
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from asyncagents.domain.clock import Rng
from asyncagents.domain.id import SessionId
from asyncagents.errors import StoreError
from asyncagents.store.postgres.errors import CONNECTION_LOST
from asyncagents.store.postgres.notify import ALL_POOLS
from asyncagents.store.postgres.pool import CONNECT_TIMEOUT_SECONDS, Connection, connect_with_retry
from asyncagents.store.postgres.queue_driver import GatedDriver, GatedQueries
from asyncagents.store.postgres.retention import tidy_forever

MAX_COUNTED = 500
"""Max active sessions counted per project; a project with more waits behind all others."""
_PRIORITIES = (
    "SELECT id, pool, CASE WHEN busy < $2 THEN first - busy ELSE LEAST(first - busy, last - 1) END"
    " FROM session, LATERAL ("
    "  SELECT COALESCE(MAX(priority), 0) AS first, COALESCE(MIN(priority), 0) AS last"
    "  FROM pgqueuer WHERE status = 'queued' AND entrypoint = 'turn.' || session.pool) AS line, LATERAL ("
    "  SELECT COUNT(*) AS busy FROM (SELECT 1 FROM session AS other"
    "  WHERE other.project_id = session.project_id AND other.state <> 'idle' LIMIT $2) AS kin) AS project"
    " WHERE id = ANY($1) AND state = 'ready'"
)

POLL_SECONDS = 5
"""Interval of polls, for jobs without a notification."""
RETRY_SECONDS = 0.2
RunSession: TypeAlias = Callable[[SessionId], Awaitable[bool]]

_log = logging.getLogger(__name__)
_queries: WeakKeyDictionary[Connection, Queries] = WeakKeyDictionary()


def _is_relevant(record: logging.LogRecord) -> bool:
    """Filter PgQueuer's log: its flush errors repeat ours about a broken connection, and jobs are hints."""
    return not str(record.msg).startswith(("Shutdown flush failed", "Flush failed"))


def entrypoint(pool: str) -> str:
    return f"turn.{pool}"


async def install_queue(connection: Connection) -> None:
    """Install or upgrade PgQueuer's tables."""
    ours = f"{version('pgqueuer')}, silent"
    if await connection.fetchval("SELECT queue FROM asyncagents_schema") == ours:
        return
    queries = Queries.from_asyncpg_connection(connection)
    if await queries.schema_is_installed():
        await queries.upgrade()
    else:
        await queries.install()
    settings = queries.qbe.settings  # it would notify per statement; the control connection does it instead
    await connection.execute(f"ALTER TABLE {settings.queue_table} DISABLE TRIGGER {settings.trigger}")
    await connection.execute("UPDATE asyncagents_schema SET queue = $1", ours)


async def enqueue_wakes(connection: Connection, sessions: list[SessionId]) -> frozenset[str]:
    """Enqueue sessions in the transaction that woke them; returns their pools.

    Priorities are fair: counted from the first in the queue, a project's next session waits behind as many as
    it has active. So a project with one session is not delayed by one with thousands, and none starves."""
    rows = await connection.fetch(_PRIORITIES, list(dict.fromkeys(sessions)), MAX_COUNTED)
    if not rows:
        return frozenset()
    queries = _queries.get(connection)
    if queries is None:
        queries = _queries[connection] = Queries.from_asyncpg_connection(connection)
    await queries.enqueue(
        [entrypoint(row[1]) for row in rows],
        [row[0].encode() for row in rows],
        [row[2] for row in rows],
    )
    return frozenset(row[1] for row in rows)


class PgWakeQueue:
    """Runs PgQueuer's manager, and restarts it when its connection breaks."""

    def __init__(self, dsn: str, rng: Rng, *, pools: tuple[str, ...], most: int, heartbeat: float) -> None:
        self.peers: Callable[[], int] = lambda: 1
        """How many processes run sessions, with this one."""
        self._dsn = dsn
        self._rng = rng
        self._pools = pools
        self._most = most
        self._heartbeat = heartbeat
        self._stopped = asyncio.Event()
        self._manager: QueueManager | None = None
        self._driver: GatedDriver | None = None
        self._connection: Connection | None = None

    def hint(self, pools: frozenset[str]) -> None:
        """Dequeue soon if this process serves one of these pools: there may be jobs."""
        if self._driver is not None and (ALL_POOLS in pools or not pools.isdisjoint(self._pools)):
            self._driver.hint()

    def disconnect(self) -> None:
        """Terminate the connection: the database is out of reach, which it may not have noticed."""
        if self._connection is not None:
            self._connection.terminate()

    def stop(self) -> None:
        """Take no more jobs; those that run go on."""
        self._stopped.set()
        if self._manager is not None:
            self._manager.shutdown.set()

    async def work(self, run: RunSession) -> None:
        """Run sessions from the queue. `run` occupies a slot until it returns; False: try elsewhere."""
        logging.getLogger("pgqueuer").addFilter(_is_relevant)
        async with asyncio.TaskGroup() as group:
            tidying = group.create_task(tidy_forever(self._dsn, self._rng))
            await self._work_forever(run)
            tidying.cancel()

    async def _work_forever(self, run: RunSession) -> None:
        while not self._stopped.is_set():
            try:
                await self._run_manager(run)
            except Exception as error:  # noqa: BLE001  jobs are hints, so work goes on: asyncpg has no error
                # of its own for a connection that is terminated in the middle of a query
                known = isinstance(
                    error, (StoreError, asyncpg.PostgresError, ExceptionGroup, *CONNECTION_LOST)
                )
                _log.warning("queue action=dequeue: failed; will retry: %s", error, exc_info=not known)
            await asyncio.sleep(RETRY_SECONDS)

    async def _run_manager(self, run: RunSession) -> None:
        until = asyncio.get_running_loop().time() + CONNECT_TIMEOUT_SECONDS
        connection = await connect_with_retry(self._dsn, self._rng, until=until)

        turns: set[asyncio.Task[Any] | None] = set()

        async def turn(job: Job) -> None:
            turns.add(mine := asyncio.current_task())
            try:
                if job.payload is not None and not await run(SessionId(job.payload.decode())):
                    raise RetryRequested(delay=timedelta(seconds=RETRY_SECONDS))
            finally:
                turns.discard(mine)

        def on_connection_lost(_: object) -> None:
            """Stop waiting for the running sessions, which go on; the next manager takes new jobs."""
            manager.shutdown.set()
            for each in turns:
                assert each is not None
                each.cancel()

        self._connection, self._driver = connection, GatedDriver(connection, self._rng, self.peers)
        manager = self._manager = QueueManager(GatedQueries(self._driver))
        connection.add_termination_listener(on_connection_lost)
        for pool in self._pools:
            manager.entrypoint(entrypoint(pool))(turn)
        try:
            await manager.run(
                dequeue_timeout=timedelta(seconds=POLL_SECONDS),
                batch_size=max(1, min(10, self._most // 2)),
                max_concurrent_tasks=max(2, self._most),
                heartbeat_timeout=timedelta(seconds=self._heartbeat),
            )
        finally:
            self._manager = self._driver = self._connection = None
            connection.terminate()
