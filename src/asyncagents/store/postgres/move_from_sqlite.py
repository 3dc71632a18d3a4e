"""Moves the SQLite store of a data directory into PostgreSQL: all or nothing, with its ids and revisions."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import TypeAlias

import asyncpg
from msgspec import Struct

from asyncagents.domain.clock import Rng
from asyncagents.errors import Conflict, InvalidInput, SchemaMismatch, StoreError
from asyncagents.store.postgres.errors import CONNECTION_LOST
from asyncagents.store.postgres.migrate import load_scripts, migrate, rebase_revisions
from asyncagents.store.postgres.pool import CONNECT_TIMEOUT_SECONDS, Connection, connect_with_retry
from asyncagents.store.sqlite.connection import configure
from asyncagents.store.sqlite.migrate import load_scripts as load_sqlite_scripts
from asyncagents.store.sqlite.migrate import migrate as migrate_sqlite
from asyncagents.store.sqlite.owners import is_lock_held
from asyncagents.store.tx import Row

TABLES = (
    *("session", "message", "part", "input", "call", "request", "cancel", "tombstone", "todo", "approval"),
    *("answered", "task", "notice", "secret_key", "call_secret", "delivery", "idempotency", "arrival"),
    "external_session",
)
_SOURCE_ONLY = frozenset({"schema", "revision", "mark"})
"""Tables of the file that are not moved: PostgreSQL counts revisions in its own way."""
BATCH_ROWS, BATCH_BYTES = 2_000, 4 * 1024 * 1024
"""Limits of a batch."""
STATEMENT_TIMEOUT_SECONDS = 3_600
DISCONNECT_SECONDS = 2.0
"""How long PostgreSQL may still list a connection that was closed."""

ReportProgress: TypeAlias = Callable[[str, int], None]


class MoveResult(Struct, frozen=True, kw_only=True):
    rows: dict[str, int]
    """Rows moved, by table."""
    replaced: int = 0
    """Characters that PostgreSQL cannot store, such as a zero byte; each was replaced by U+FFFD."""


async def move_store(
    path: Path, dsn: str, *, rng: Rng, pool: str | None = None, told: ReportProgress
) -> MoveResult:
    """Copy a SQLite file into a database without sessions: all of it or, after any failure, nothing.

    With `pool` all sessions get that pool. `told` is called with a table and how many of its rows were sent.
    The file stays as it is. Raises `Conflict` if either side is in use or the database has sessions,
    `InvalidInput` if there is no such file, `SchemaMismatch` and `StoreError`.
    """
    texts = _TextReader()
    with _open_source(path, rng) as source:
        source.text_factory = texts
        async with _open_target(dsn, rng) as target:
            await _clear_target(target)
            columns = await _columns(source, target)
            for table in TABLES:
                await _copy_table(source, target, table, columns[table], pool=pool, report=told)
            (newest,) = source.execute("SELECT rev FROM revision").fetchone()
            await _continue_revisions(target, epoch=_epoch(rng), newest=newest)
            rows = await _check_counts(source, target)
            _refuse_users(path.parent)  # a process started meanwhile would go on with the file
            await _commit(target)
    return MoveResult(rows=rows, replaced=texts.replaced)


def _epoch(rng: Rng) -> str:
    return f"{rng.below(2**48):012x}"


class _TextReader:
    """Decodes texts and replaces what PostgreSQL cannot store."""

    def __init__(self) -> None:
        self.replaced = 0

    def __call__(self, raw: bytes) -> str:
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = raw.decode(errors="replace")
            self.replaced += text.count("\ufffd")
        if "\0" in text:
            self.replaced += text.count("\0")
            text = text.replace("\0", "\ufffd")
        return text


# The file


@contextmanager
def _open_source(path: Path, rng: Rng) -> Iterator[sqlite3.Connection]:
    """Open the file, migrated to the newest schema and locked against writes until the block ends."""
    if not path.is_file():
        raise InvalidInput(f"there is no store at {path}: give a data directory that has one")
    _refuse_users(path.parent)
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as source:
            configure(source, synchronous="FULL")
            migrate_sqlite(source, path, epoch=_epoch(rng), scripts=load_sqlite_scripts())
            source.execute("BEGIN IMMEDIATE")
            yield source
    except sqlite3.Error as error:
        raise StoreError(f"nothing was moved: the database {path} could not be read: {error}") from error


def _refuse_users(directory: Path) -> None:
    """Raise `Conflict` if a living process uses the data directory: each holds a lock file there."""
    if any(is_lock_held(lock) for lock in (*directory.glob("*.lock"), *directory.glob("owners/*.lock"))):
        raise Conflict(
            f"nothing was moved: a process uses {directory}. Stop it (`asyncagents doctor` shows whether a "
            "server runs there, and how many processes use it), then move again."
        )


def _column_names(source: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in source.execute(f'PRAGMA table_info("{table}")')]


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Group rows into batches, limited in number and size."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# The database


@asynccontextmanager
async def _open_target(dsn: str, rng: Rng) -> AsyncIterator[Connection]:
    """Open a transaction in a database with our schema; it is rolled back unless committed."""
    target = await connect_with_retry(
        dsn, rng, until=asyncio.get_running_loop().time() + CONNECT_TIMEOUT_SECONDS
    )
    try:
        await migrate(target, epoch=_epoch(rng), scripts=load_scripts())
        await target.execute(
            f"BEGIN; SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_SECONDS}s'; "
            "SET LOCAL lock_timeout = '5s'; "
            f"SET LOCAL idle_in_transaction_session_timeout = '{STATEMENT_TIMEOUT_SECONDS}s'"
        )
        yield target
    except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
        raise StoreError(f"nothing was moved: {str(error) or type(error).__name__}") from error
    finally:
        try:
            await target.close(timeout=1)
        except (*CONNECTION_LOST, asyncpg.PostgresError):
            target.terminate()


async def _clear_target(target: Connection) -> None:
    """Lock and empty the target; a process that opens it meanwhile waits for the move. Raises `Conflict`."""
    try:
        await target.execute("LOCK TABLE revision IN ACCESS EXCLUSIVE MODE")
    except asyncpg.LockNotAvailableError as error:
        raise _in_use() from error
    await _refuse_others(target)
    if await target.fetchval(
        "SELECT EXISTS (SELECT 1 FROM session) OR EXISTS (SELECT 1 FROM delivery WHERE state = 'owed')"
    ):
        raise Conflict(
            "nothing was moved: the database has sessions, or webhooks to deliver. If they are those of this "
            "data directory it was moved before, and all is well; else give a database of its own."
        )
    # Deleted sessions leave tombstones, and a server may have inserted a secret key when it started.
    await target.execute(f"TRUNCATE {', '.join(TABLES)} RESTART IDENTITY")


async def _refuse_others(target: Connection) -> None:
    """Raise `Conflict` if other processes have the database open: they would count from old revisions."""
    until = asyncio.get_running_loop().time() + DISCONNECT_SECONDS
    while await target.fetchval(
        "SELECT COUNT(*) FROM pg_stat_activity, pg_stat_clear_snapshot() WHERE datname = current_database() "
        "AND pid <> pg_backend_pid() AND application_name = current_setting('application_name') "
        "AND COALESCE(backend_type, 'client backend') = 'client backend'"
    ):
        if asyncio.get_running_loop().time() > until:
            raise _in_use()
        await asyncio.sleep(0.05)


def _in_use() -> Conflict:
    return Conflict(
        "nothing was moved: other processes of asyncagents have the database open. Stop them, then move "
        "again."
    )


async def _columns(source: sqlite3.Connection, target: Connection) -> dict[str, list[str]]:
    """The columns of each table. Raises `SchemaMismatch` unless both sides have the same."""
    known = source.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    if strange := {row[0] for row in known} - _SOURCE_ONLY - set(TABLES):
        raise SchemaMismatch(f"nothing was moved: {', '.join(sorted(strange))} has no table in PostgreSQL")
    columns: dict[str, list[str]] = {}
    for table in TABLES:
        columns[table] = _column_names(source, table)
        there = await target.fetch(
            "SELECT attname FROM pg_attribute "
            "WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND NOT attisdropped",
            table,
        )
        if differ := set(columns[table]) ^ {row[0] for row in there}:
            raise SchemaMismatch(
                f"nothing was moved: only one side has {', '.join(sorted(differ))} of {table}. "
                "Upgrade asyncagents; if it is the newest, please report this."
            )
    return columns


async def _copy_table(
    source: sqlite3.Connection,
    target: Connection,
    table: str,
    columns: list[str],
    *,
    pool: str | None,
    report: ReportProgress,
) -> None:
    moves = pool is not None and table == "session"
    wanted = ", ".join("?" if moves and name == "pool" else f'"{name}"' for name in columns)
    found = source.execute(f"SELECT {wanted} FROM {table}", (pool,) if moves else ())  # noqa: S608  our names
    sent = 0
    for batch in _batches(found):
        await _send_batch(target, table, columns, batch)
        sent += len(batch)
        report(table, sent)


async def _send_batch(target: Connection, table: str, columns: list[str], batch: list[Row]) -> None:
    try:
        await target.copy_records_to_table(
            table, records=batch, columns=columns, timeout=STATEMENT_TIMEOUT_SECONDS
        )
    except CONNECTION_LOST:
        raise
    except (asyncpg.PostgresError, TypeError, OverflowError, UnicodeEncodeError) as error:
        raise StoreError(f"nothing was moved: PostgreSQL cannot store a row of {table}: {error}") from error


async def _continue_revisions(target: Connection, *, epoch: str, newest: int) -> None:
    """Continue revisions above the file's newest: admissions, cancels and cursors refer to old ones."""
    await target.execute(
        "SELECT setval(pg_get_serial_sequence('secret_key', 'id'), MAX(id)) FROM secret_key "
        "HAVING COUNT(*) > 0"
    )
    await rebase_revisions(target, epoch=epoch, least=newest)


async def _check_counts(source: sqlite3.Connection, target: Connection) -> dict[str, int]:
    """Count the rows of each table. Raises `StoreError` unless both sides have as many."""
    rows: dict[str, int] = {}
    for table in TABLES:
        count = f"SELECT COUNT(*) FROM {table}"  # noqa: S608  our names
        (here,) = source.execute(count).fetchone()
        there = await target.fetchval(count, timeout=STATEMENT_TIMEOUT_SECONDS)
        if here != there:
            raise StoreError(f"nothing was moved: only {there} of {here} rows of {table} arrived")
        rows[table] = here
    # Without statistics the first queries would scan whole tables.
    await target.execute(f"ANALYZE {', '.join(TABLES)}", timeout=STATEMENT_TIMEOUT_SECONDS)
    return rows


async def _commit(target: Connection) -> None:
    try:
        await target.execute("COMMIT", timeout=STATEMENT_TIMEOUT_SECONDS)
    except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
        raise StoreError(
            f"the answer to COMMIT was lost ({error}): move again. If the database then has sessions, all "
            "were moved; else none."
        ) from error
