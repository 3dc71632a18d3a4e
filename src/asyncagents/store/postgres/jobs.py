"""Wakes wait in a queue for whoever has room: a job names a session, and is a hint, never the truth."""

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

from asyncagents.domain.id import SessionId
from asyncagents.domain.port import Rng
from asyncagents.errors import StoreError
from asyncagents.store.postgres.gate import GatedDriver, GatedQueries
from asyncagents.store.postgres.news import EVERY_POOL
from asyncagents.store.postgres.pool import PATIENCE_SECONDS, Connection, patiently
from asyncagents.store.postgres.retention import tidy_forever
from asyncagents.store.postgres.trouble import LOST

COUNTED = 500
"""A project's sessions that are at work or wait; one that has more waits behind everybody."""
_WAITING = (
    "SELECT id, pool, CASE WHEN busy < $2 THEN first - busy ELSE LEAST(first - busy, last - 1) END"
    " FROM session, LATERAL ("
    "  SELECT COALESCE(MAX(priority), 0) AS first, COALESCE(MIN(priority), 0) AS last"
    "  FROM pgqueuer WHERE status = 'queued' AND entrypoint = 'turn.' || session.pool) AS line, LATERAL ("
    "  SELECT COUNT(*) AS busy FROM (SELECT 1 FROM session AS other"
    "  WHERE other.project_id = session.project_id AND other.state <> 'idle' LIMIT $2) AS kin) AS project"
    " WHERE id = ANY($1) AND state = 'ready'"
)

LOOK_SECONDS = 5
"""For what no notification told of."""
PAUSE_SECONDS = 0.2
Run: TypeAlias = Callable[[SessionId], Awaitable[bool]]

_log = logging.getLogger(__name__)
_queries: WeakKeyDictionary[Connection, Queries] = WeakKeyDictionary()


def _is_news(record: logging.LogRecord) -> bool:
    """What PgQueuer says of a broken connection we have said; and a job that is not struck off is a hint."""
    return not str(record.msg).startswith(("Shutdown flush failed", "Flush failed"))


def entrypoint(pool: str) -> str:
    return f"turn.{pool}"


async def install(connection: Connection) -> None:
    """PgQueuer's own tables, as its version wants them."""
    ours = f"{version('pgqueuer')}, silent"
    if await connection.fetchval("SELECT queue FROM asyncagents_schema") == ours:
        return
    queries = Queries.from_asyncpg_connection(connection)
    if await queries.schema_is_installed():
        await queries.upgrade()
    else:
        await queries.install()
    settings = queries.qbe.settings  # its notifications would be one for each statement: our line tells
    await connection.execute(f"ALTER TABLE {settings.queue_table} DISABLE TRIGGER {settings.trigger}")
    await connection.execute("UPDATE asyncagents_schema SET queue = $1", ours)


async def enqueue(connection: Connection, sessions: list[SessionId]) -> frozenset[str]:
    """In the transaction that woke them. Counted from who is first in line, a project's next session waits
    behind as many as it has at work: of one with ten thousand and one with a single one, the single one is
    next; and as the line moves on, nobody who waits is overtaken for ever. Returns the pools."""
    rows = await connection.fetch(_WAITING, list(dict.fromkeys(sessions)), COUNTED)
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


class Jobs:
    """PgQueuer's manager, made anew when its connection breaks."""

    def __init__(self, dsn: str, rng: Rng, *, pools: tuple[str, ...], most: int, heartbeat: float) -> None:
        self.fellows: Callable[[], int] = lambda: 1
        """How many work, with this one."""
        self._dsn = dsn
        self._rng = rng
        self._pools = pools
        self._most = most
        self._heartbeat = heartbeat
        self._stopped = asyncio.Event()
        self._manager: QueueManager | None = None
        self._gate: GatedDriver | None = None
        self._connection: Connection | None = None

    def hint(self, pools: frozenset[str]) -> None:
        """There may be something to take for those who work for these."""
        if self._gate is not None and (EVERY_POOL in pools or not pools.isdisjoint(self._pools)):
            self._gate.hint()

    def cut(self) -> None:
        """The database is out of reach, and this connection may not have noticed."""
        if self._connection is not None:
            self._connection.terminate()

    def stop(self) -> None:
        """Take no more; what was taken goes on."""
        self._stopped.set()
        if self._manager is not None:
            self._manager.shutdown.set()

    async def work(self, run: Run) -> None:
        """`run` returns when there is nothing more to do: so long its place is taken. False: not here."""
        logging.getLogger("pgqueuer").addFilter(_is_news)
        async with asyncio.TaskGroup() as group:
            tidying = group.create_task(tidy_forever(self._dsn, self._rng))
            await self._take(run)
            tidying.cancel()

    async def _take(self, run: Run) -> None:
        while not self._stopped.is_set():
            try:
                await self._work(run)
            except Exception as error:  # noqa: BLE001  whatever becomes of hints, work goes on: asyncpg has
                # no error of its own for a connection that is ended in the middle of a question
                known = isinstance(error, (StoreError, asyncpg.PostgresError, ExceptionGroup, *LOST))
                _log.warning("the queue is out of reach; it is tried again: %s", error, exc_info=not known)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _work(self, run: Run) -> None:
        until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        connection = await patiently(self._dsn, self._rng, until=until)

        turns: set[asyncio.Task[Any] | None] = set()

        async def turn(job: Job) -> None:
            turns.add(mine := asyncio.current_task())
            try:
                if job.payload is not None and not await run(SessionId(job.payload.decode())):
                    raise RetryRequested(delay=timedelta(seconds=PAUSE_SECONDS))
            finally:
                turns.discard(mine)

        def lost(_: object) -> None:
            """What runs goes on, but is not waited for here: the next queue takes what comes meanwhile."""
            manager.shutdown.set()
            for each in turns:
                assert each is not None
                each.cancel()

        self._connection, self._gate = connection, GatedDriver(connection, self._rng, self.fellows)
        manager = self._manager = QueueManager(GatedQueries(self._gate))
        connection.add_termination_listener(lost)
        for pool in self._pools:
            manager.entrypoint(entrypoint(pool))(turn)
        try:
            await manager.run(
                dequeue_timeout=timedelta(seconds=LOOK_SECONDS),
                batch_size=max(1, min(10, self._most // 2)),
                max_concurrent_tasks=max(2, self._most),
                heartbeat_timeout=timedelta(seconds=self._heartbeat),
            )
        finally:
            self._manager = self._gate = self._connection = None
            connection.terminate()
