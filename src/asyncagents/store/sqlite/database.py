"""SQLite behind the `Database` protocol: one writer with group commit, readers beside it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from asyncagents.domain.id import Ids
from asyncagents.domain.port import Clock, Rng
from asyncagents.store.sqlite.batch import Batches, SqliteTx, drive
from asyncagents.store.sqlite.connection import Connect, Connection, connect
from asyncagents.store.sqlite.migrate import migrate
from asyncagents.store.sqlite.statement import load_statements
from asyncagents.store.sqlite.writer import Report, ThreadWriter, Writer
from asyncagents.store.tx import Commit, Verb

T = TypeVar("T")
MakeWriter: TypeAlias = Callable[[Batches, Report], Writer]
READERS = 2


class SqliteDatabase:
    def __init__(self, batches: Batches, readers: "Readers", make_writer: MakeWriter) -> None:
        self._listeners: list[Callable[[Commit], None]] = []
        self._readers = readers
        self._writer = make_writer(batches, self._report)

    async def write(self, verb: Verb[T]) -> T:
        return cast(T, await self._writer.submit(verb))

    async def read(self, verb: Verb[T]) -> T:
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
        self._pool = ThreadPoolExecutor(READERS, thread_name_prefix="asyncagents-reader")

    async def run(self, verb: Verb[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, verb)

    def _read(self, verb: Verb[T]) -> T:
        connection = self._mine()
        connection.execute("BEGIN")
        try:
            tx = SqliteTx(connection, self._sql, now=self._clock.now(), ids=self._ids)
            return drive(cast("Coroutine[Any, Any, T]", verb(tx)))
        finally:
            connection.execute("COMMIT")

    def _mine(self) -> Connection:
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect(self._path)
            self._connections.append(self._local.connection)
        return cast(Connection, self._local.connection)

    def close(self) -> None:
        self._pool.shutdown()
        for connection in self._connections:
            connection.close()


@asynccontextmanager
async def open_sqlite(
    path: Path,
    *,
    clock: Clock,
    rng: Rng,
    connect: Connect = connect,
    make_writer: MakeWriter = ThreadWriter,
) -> AsyncIterator[SqliteDatabase]:
    """Open, or make, a database file. Several processes may have the same one open."""
    path.parent.mkdir(parents=True, exist_ok=True)
    first = connect(path)
    migrate(first, path, epoch=f"{rng.below(2**48):012x}")
    first.close()
    sql = load_statements()
    batches = Batches(path, connect, sql=sql, clock=clock, ids=Ids(clock, rng))
    readers = Readers(path, connect, sql=sql, clock=clock, ids=Ids(clock, rng))
    database = SqliteDatabase(batches, readers, make_writer)
    try:
        yield database
    finally:
        await database.close()
