"""A pool of connections to one database: broken ones are replaced, with a backoff between tries."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import asyncpg

from asyncagents.domain.clock import Rng
from asyncagents.errors import AsyncAgentsError, Closed, StoreError
from asyncagents.store.postgres.errors import CONNECTION_LOST, OUT_OF_SYNC

STATEMENT_SECONDS = 30
IDLE_SECONDS = 10
"""A process that is stopped within a transaction blocks others for no longer than this."""
CONNECT_TIMEOUT_SECONDS = 20.0
"""How long to wait for a database that restarts."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
_SETTINGS = {
    "application_name": "asyncagents",
    "statement_timeout": f"{STATEMENT_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "jit": "off",
}

_log = logging.getLogger(__name__)

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
OnConnect: TypeAlias = Callable[[Connection], Awaitable[None]]


async def connect(dsn: str) -> Connection:
    return await asyncpg.connect(
        dsn,
        timeout=5,
        command_timeout=STATEMENT_SECONDS + 5,
        statement_cache_size=400,
        max_cached_statement_lifetime=0,
        server_settings=_SETTINGS,
    )


async def connect_with_retry(
    dsn: str, rng: Rng, *, until: float, greet: OnConnect | None = None
) -> Connection:
    """Connect, with retries until a time of the event loop. Raises `StoreError`."""
    loop, pause = asyncio.get_running_loop(), FIRST_PAUSE
    while True:
        try:
            connection = await connect(dsn)
            if greet is not None:
                await greet(connection)
        except CONNECTION_LOST as error:
            if loop.time() + pause > until:
                raise StoreError(f"the database is out of reach: {_error_text(error)}") from error
            await asyncio.sleep(pause * (0.5 + rng.below(1000) / 1000))
            pause = min(LONGEST_PAUSE, pause * 2)
        except (asyncpg.PostgresError, ValueError) as error:
            raise StoreError(f"the database refused the connection: {error}") from error
        else:
            return connection


def _error_text(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _is_clean(error: BaseException) -> bool:
    """Whether a connection is reusable after an error; after others its protocol state is unknown."""
    known = isinstance(error, AsyncAgentsError | asyncpg.PostgresError)
    return known and not isinstance(error, OUT_OF_SYNC)


class Pool:
    def __init__(self, dsn: str, rng: Rng, *, size: int, greet: OnConnect) -> None:
        self._dsn = dsn
        self._rng = rng
        self._greet = greet
        self._idle: list[Connection] = []
        self._slots = asyncio.Semaphore(size)
        self._closed = False
        self._marks: WeakKeyDictionary[Connection, tuple[int, int]] = WeakKeyDictionary()

    def next_mark(self, connection: Connection) -> tuple[int, int]:
        """Make the mark of a transaction: the slot of its connection, and a number that is new there."""
        slot, token = self._marks.get(connection) or (1 + self._rng.below(2**62), 0)
        self._marks[connection] = slot, token + 1
        return slot, token + 1

    @asynccontextmanager
    async def take(self, *, until: float) -> AsyncIterator[Connection]:
        """Take a connection for exclusive use; the last used first, so that surplus ones stay idle."""
        async with asyncio.timeout_at(until):
            await self._slots.acquire()
        try:
            async with self.take_replacement(until=until) as connection:
                yield connection
        finally:
            self._slots.release()

    @asynccontextmanager
    async def take_replacement(self, *, until: float) -> AsyncIterator[Connection]:
        """Take a connection in place of one that broke, while its slot is still held."""
        connection = await self._take_or_connect(until)
        try:
            yield connection
        except BaseException as error:
            if not connection.is_closed() and (connection.is_in_transaction() or not _is_clean(error)):
                connection.terminate()
            raise
        finally:
            self._put_back(connection)

    async def _take_or_connect(self, until: float) -> Connection:
        if self._closed:
            raise Closed("the store is closed")
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await connect_with_retry(self._dsn, self._rng, until=until, greet=self._greet)

    def _put_back(self, connection: Connection) -> None:
        if self._closed:
            connection.terminate()
        elif not connection.is_closed():
            self._idle.append(connection)

    async def close(self) -> None:
        self._closed = True
        for connection in self._idle:
            await _close_connection(connection)
        self._idle.clear()


async def _close_connection(connection: Any) -> None:
    try:
        await connection.close(timeout=1)
    except (*CONNECTION_LOST, asyncpg.PostgresError):
        connection.terminate()
