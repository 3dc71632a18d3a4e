"""SQLite behind the `Database` protocol: one writer with group commit, readers beside it."""

import asyncio
import fcntl
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from asyncagents.domain.clock import Clock, Rng
from asyncagents.domain.id import Ids
from asyncagents.errors import Closed, StoreError
from asyncagents.store.sqlite.connection import Connect, Connection, connect, is_busy
from asyncagents.store.sqlite.group_commit import GroupCommit
from asyncagents.store.sqlite.migrate import load_scripts, migrate, schema_version
from asyncagents.store.sqlite.open_check import OpenCheck
from asyncagents.store.sqlite.statement import load_statements
from asyncagents.store.sqlite.transaction import SqliteTx, run_sync
from asyncagents.store.sqlite.writer import Report, ThreadWriter, VerbWriter
from asyncagents.store.tx import Commit, Verb

T = TypeVar("T")
MakeWriter: TypeAlias = Callable[[GroupCommit, Report], VerbWriter]
READERS = 2


class WouldBlock(Exception):
    """The read would have to wait for a lock of another process."""


class SqliteDatabase:
    def __init__(self, group_commit: GroupCommit, readers: "Readers", make_writer: MakeWriter) -> None:
        self._listeners: list[Callable[[Commit], None]] = []
        self._readers = readers
        self._writer = make_writer(group_commit, self._report)

    async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
        return cast(T, await self._writer.submit(verb, inline=inline))

    async def read(self, verb: Verb[T], *, inline: bool = False) -> T:
        if inline:
            await asyncio.sleep(0)  # a loop of inline reads must let other tasks run
            with suppress(WouldBlock):
                return self._readers.read_inline(verb)
        return await self._readers.run(verb)

    def listen(self, listener: Callable[[Commit], None]) -> None:
        self._listeners.append(listener)

    def poll(self) -> None:
        self._writer.poll()

    async def close(self) -> None:
        await self._writer.close()
        self._readers.close()

    def _report(self, commit: Commit) -> None:
        for listener in self._listeners:
            listener(commit)


class Readers:
    """A connection for each reading thread; a read sees one consistent state."""

    def __init__(self, path: Path, connect: Connect, *, sql: dict[str, str], clock: Clock, ids: Ids) -> None:
        self._path = path
        self._connect = connect
        self._sql = sql
        self._clock = clock
        self._ids = ids
        self._local = threading.local()
        self._connections: list[Connection] = []
        self._closed = False
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="asyncagents-reader")

    def read_inline(self, verb: Verb[T]) -> T:
        """Read on the event loop: for a few rows a thread hand-over takes longer than the read itself.
        Raises `WouldBlock` instead of waiting for a lock."""
        if self._closed:
            raise Closed("the store is closed")
        if not hasattr(self._local, "connection"):
            self._thread_connection().execute("PRAGMA busy_timeout = 0")
        try:
            return self._read_with(self._thread_connection(), verb)
        except sqlite3.Error as error:
            self._drop()
            if is_busy(error):
                raise WouldBlock from error
            raise StoreError(f"the database could not be read: {error}") from error

    async def run(self, verb: Verb[T]) -> T:
        if self._closed:
            raise Closed("the store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, verb)

    def _read(self, verb: Verb[T]) -> T:
        try:
            return self._read_with(self._thread_connection(), verb)
        except sqlite3.Error as error:
            self._drop()
            raise StoreError(f"the database could not be read: {error}") from error

    def _read_with(self, connection: Connection, verb: Verb[T]) -> T:
        connection.execute("BEGIN")
        try:
            tx = SqliteTx(connection, self._sql, now=self._clock.now(), ids=self._ids)
            return run_sync(cast("Coroutine[Any, Any, T]", verb(tx)))
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def _thread_connection(self) -> Connection:
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect(self._path)
            self._connections.append(self._local.connection)
        return cast(Connection, self._local.connection)

    def _drop(self) -> None:
        """Close the thread's connection after an error; the next read opens a new one."""
        if hasattr(self._local, "connection"):
            self._local.connection.close()
            self._connections.remove(self._local.connection)
            del self._local.connection

    def close(self) -> None:
        self._closed = True
        self._pool.shutdown()
        for connection in self._connections:
            connection.close()


@asynccontextmanager
async def open_sqlite(
    path: Path,
    *,
    clock: Clock,
    rng: Rng,
    ids: Ids | None = None,
    connect: Connect = connect,
    make_writer: MakeWriter = ThreadWriter,
) -> AsyncIterator[SqliteDatabase]:
    """Open or create a database file. Several processes may have the same one open.

    Messages are read in the order of their ids, so all code of this process that makes ids shares `ids`.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    sql, ids = load_statements(), ids or Ids(clock, rng)
    try:
        _migrate_file(path, connect, epoch=f"{rng.below(2**48):012x}")
        group_commit = GroupCommit(
            path, connect, name=f"{rng.below(2**64):016x}", sql=sql, clock=clock, ids=ids
        )
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StoreError(f"the database {path} could not be opened: {reason}") from error
    readers = Readers(path, connect, sql=sql, clock=clock, ids=ids)
    database = SqliteDatabase(group_commit, readers, make_writer)
    try:
        yield database
    finally:
        await database.close()


def _migrate_file(path: Path, connect: Connect, *, epoch: str) -> None:
    with _directory_lock(path.parent):
        remains = OpenCheck(path)
        remains.check()
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # private: it holds transcripts
        with closing(connect(path)) as connection:
            remains.check_schema(schema_version(connection))
            migrate(connection, path, epoch=epoch, scripts=load_scripts())


@contextmanager
def _directory_lock(directory: Path) -> Iterator[None]:
    """Lock the directory while its database is created: SQLite does not wait for the switch to WAL."""
    fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
