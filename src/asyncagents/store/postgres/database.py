"""PostgreSQL behind the `Database` protocol: a verb is a transaction on a connection of its own."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from asyncagents.domain.clock import Clock, Rng
from asyncagents.domain.id import Ids, SessionId
from asyncagents.errors import Closed, StoreError
from asyncagents.store.postgres.errors import CONNECTION_LOST, OUT_OF_SYNC, RetryNeeded, translate_error
from asyncagents.store.postgres.migrate import MIGRATION_LOCK, DatabaseIdentity, load_scripts, migrate
from asyncagents.store.postgres.pool import CONNECT_TIMEOUT_SECONDS, Connection, Pool, connect_with_retry
from asyncagents.store.postgres.remote_commits import RemoteCommits
from asyncagents.store.postgres.statement import load_statements
from asyncagents.store.postgres.transaction import PostgresTx
from asyncagents.store.postgres.tree_lock import TreeLocks
from asyncagents.store.postgres.wake_queue import install_queue
from asyncagents.store.tx import Commit, Row, Verb

T = TypeVar("T")
POOL_SIZE = 8
"""Connections per process."""
MAX_TRIES = 20
LOCK_TIMEOUT_SECONDS = 1
"""A longer wait for a tree of another process returns the connection to the pool and tries again."""
RETRY_SECONDS = 0.005
_UNDER_WAY = (
    "SELECT CASE WHEN $1::text::xid8 < pg_current_xact_id()"
    " THEN pg_xact_status($1::text::xid8) = 'in progress' END"
)
"""NULL if a restarted server has not reached this transaction number again: then it is not in progress.
A given number is below one that is taken now; the end of a snapshot may not be, while nothing later ended."""
_IS_THERE = "SELECT EXISTS (SELECT 1 FROM mark WHERE slot = $1 AND token = $2)"
_UNKNOWN = "whether the write was done is not known"

_log = logging.getLogger(__name__)


class PostgresDatabase:
    def __init__(
        self, pool: Pool, *, identity: DatabaseIdentity, base: int, clock: Clock, rng: Rng, ids: Ids
    ) -> None:
        self._pool = pool
        self.identity = identity
        self.base = base
        self._clock = clock
        self._rng = rng
        self._ids = ids
        self._sql = load_statements()
        self._trees = TreeLocks()
        self._listeners: list[Callable[[Commit], None]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self.before_commit: Callable[[Connection, list[SessionId]], Awaitable[frozenset[str]]] | None = None
        """Called within a transaction that wakes sessions, before its commit; returns their pools."""
        self.on_commit: Callable[[frozenset[str]], None] = lambda pools: None
        """Called after a commit, with the pools that it queued work for."""
        self.remote_commits = RemoteCommits(self)

    async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
        """Run a verb and commit; a cancelled caller does not stop it."""
        return await asyncio.shield(self._start_task(self._retry(lambda until: self._commit(verb, until))))

    async def read(self, verb: Verb[T], *, inline: bool = False) -> T:
        return await asyncio.shield(self._start_task(self._retry(lambda until: self._read(verb, until))))

    async def query(self, statement: str, *params: object) -> list[Row]:
        """Run a reading statement in a transaction of its own."""
        return await asyncio.shield(
            self._start_task(self._retry(lambda until: self._query(statement, params, until)))
        )

    def listen(self, listener: Callable[[Commit], None]) -> None:
        self._listeners.append(listener)

    def report(self, commit: Commit) -> None:
        for listener in self._listeners:
            listener(commit)

    def poll(self) -> None:
        """Schedule a read of what other processes committed."""
        if not self._closed:
            self.remote_commits.schedule_read()

    def begin_work(self, work: Coroutine[Any, Any, Any]) -> None:
        """Start a task that `close` waits for."""
        self._start_task(work)

    def _start_task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        if self._closed:
            work.close()
            raise Closed("the store is closed")
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mark it as retrieved: the caller has it, or was cancelled

    async def close(self) -> None:
        """Finish what was started before, then close the pool."""
        self._closed = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._pool.close()

    async def _retry(self, attempt: Callable[[float], Coroutine[Any, Any, T]]) -> T:
        """Retry until it succeeds, or until the database was out of reach for too long."""
        until, tries = asyncio.get_running_loop().time() + CONNECT_TIMEOUT_SECONDS, 0
        while True:
            try:
                return await attempt(until)
            except RetryNeeded as again:
                tries += not again.lost
                if tries >= MAX_TRIES or asyncio.get_running_loop().time() > until:
                    raise StoreError(f"the database could not be used: {again}") from again.__cause__
                await asyncio.sleep(RETRY_SECONDS * (1 + self._rng.below(1000) / 500) * min(10, tries + 1))

    async def _read(self, verb: Verb[T], until: float) -> T:
        async with self._tx(until, base=None) as tx:
            try:
                value = await verb(tx)
            except Exception as error:
                await _rollback(tx, error)
                raise translate_error(error) from error
            await _rollback(tx)
            return value

    async def _query(self, statement: str, params: tuple[object, ...], until: float) -> list[Row]:
        try:
            async with self._pool.take(until=until) as connection:
                return [tuple(row) for row in await connection.fetch(self._sql[statement].text, *params)]
        except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
            raise translate_error(error) from error

    async def _commit(self, verb: Verb[T], until: float) -> T:
        async with self._tx(until, base=self.base) as tx:
            with self.remote_commits.track(tx):
                try:
                    value = await verb(tx)
                    if tx.changes and not tx.xid:  # else a failed commit would pass as a read
                        await tx.rev()
                except Exception as error:
                    await _rollback(tx, error)
                    raise translate_error(error) from error
                if tx.connection is not None:
                    await self._finish(tx, tx.connection, until)
                self.remote_commits.add_own_commit(tx.known_rev, [event.session_id for event in tx.events])
                self.report(Commit(tx.events, tx.woken, tx.interrupted, tx.due, tx.posts, at=tx.known_rev))
        return value

    async def _finish(self, tx: PostgresTx, connection: Connection, until: float) -> None:
        pools: frozenset[str] = frozenset()
        if tx.woken and self.before_commit is not None:
            try:
                pools = await self.before_commit(connection, tx.woken)
            except Exception as error:
                await _rollback(tx, error)
                raise translate_error(error) from error
        await self._send_commit(connection, tx, until)
        if tx.xid:
            self.on_commit(pools)

    async def _send_commit(self, connection: Connection, tx: PostgresTx, until: float) -> None:
        try:
            await connection.execute("COMMIT")
        except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
            connection.terminate()
            if tx.xid and not await self._is_committed(tx, error, until):
                raise RetryNeeded(error, lost=True) from error

    async def _is_committed(self, tx: PostgresTx, error: BaseException, until: float) -> bool:
        """After the answer to COMMIT was lost, wait until the transaction ended, and look for its mark."""
        while True:
            try:
                async with self._pool.take_replacement(until=until) as connection:
                    under_way = await connection.fetchval(_UNDER_WAY, str(tx.xid))
                    there = bool(await connection.fetchval(_IS_THERE, *tx.mark))
                    if there or not under_way:
                        return there
            except CONNECTION_LOST:
                pass
            except (StoreError, asyncpg.PostgresError) as again:
                raise StoreError(f"{error}; {again}; {_UNKNOWN}") from error
            if asyncio.get_running_loop().time() > until:
                raise StoreError(f"{error}; {_UNKNOWN}") from error
            await asyncio.sleep(0.02)

    def _tx(self, until: float, *, base: int | None) -> PostgresTx:
        now, trees = self._clock.now(), self._trees
        return PostgresTx(self._pool, self._sql, now=now, ids=self._ids, trees=trees, base=base, until=until)


async def _rollback(tx: PostgresTx, error: BaseException | None = None) -> None:
    """Roll back; a reading transaction ends like this as well."""
    if tx.connection is None or tx.connection.is_closed():
        return
    if isinstance(error, OUT_OF_SYNC):  # the server may still be executing
        tx.connection.terminate()
    else:
        try:
            await tx.connection.execute("ROLLBACK")
        except (*CONNECTION_LOST, asyncpg.PostgresError):
            tx.connection.terminate()


async def _prepare_schema(dsn: str, rng: Rng, scripts: tuple[str, ...]) -> tuple[str, int]:
    """Migrate the database; returns the epoch, and what revisions are counted from."""
    first = await connect_with_retry(
        dsn, rng, until=asyncio.get_running_loop().time() + CONNECT_TIMEOUT_SECONDS
    )
    try:
        await first.execute("SELECT pg_advisory_lock($1)", MIGRATION_LOCK)
        await migrate(first, epoch=f"{rng.below(2**48):012x}", scripts=scripts)
        await install_queue(first)
        row = await first.fetchrow("SELECT epoch, base FROM revision WHERE id = 1")
    except asyncpg.PostgresError as error:
        raise StoreError(f"the database could not be migrated to our schema: {error}") from error
    finally:
        await first.close()
    assert row is not None
    return row[0], row[1]


@asynccontextmanager
async def open_postgres(
    dsn: str,
    *,
    clock: Clock,
    rng: Rng,
    ids: Ids | None = None,
    size: int = POOL_SIZE,
) -> AsyncIterator[PostgresDatabase]:
    """Open a database and migrate it to our schema. Any number of processes may have the same one open."""
    scripts = load_scripts()
    epoch, base = await _prepare_schema(dsn, rng, scripts)
    identity = DatabaseIdentity(epoch, len(scripts))

    async def greet(connection: Connection) -> None:
        await identity.check(connection)
        await connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_SECONDS}s'")
        if await connection.fetchval("SHOW synchronous_commit") == "off":
            await connection.execute("SET synchronous_commit = on")  # acknowledged means durable

    pool = Pool(dsn, rng, size=size, greet=greet)
    ids = ids or Ids(clock, rng)
    database = PostgresDatabase(pool, identity=identity, base=base, clock=clock, rng=rng, ids=ids)
    try:
        yield database
    finally:
        await database.close()
