"""Inspects a data directory from outside: its database and its owners. Changes no row."""

import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from asyncagents.domain.id import OwnerId
from asyncagents.errors import StoreError
from asyncagents.store.sqlite.owners import is_lock_held
from asyncagents.store.sqlite.statement import migration_files

PATIENCE_SECONDS = 2.0


class SqliteInspection(Struct, frozen=True, kw_only=True):
    schema: int
    """0: the tables do not exist yet."""
    needs: int
    """The schema that a program must know to read the database."""
    ours: int
    complaint: str = ""
    """The first problem that SQLite's quick check found."""
    locked: bool = False
    sessions: int = 0
    left: int = 0
    """Sessions with work and no living owner: ready, or run by a process that died."""

    @property
    def readable(self) -> bool:
        return 0 < self.needs <= self.ours


def sqlite_version() -> str:
    return sqlite3.sqlite_version


def inspect(path: Path, owners: dict[OwnerId, bool]) -> SqliteInspection:
    """Inspect a database file. Raises `StoreError` if it is not a database or cannot be opened."""
    ours = len(migration_files())
    try:
        with closing(sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None)) as connection:
            schema, needs = _schema(connection)
            (complaint,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            inspection = SqliteInspection(
                schema=schema,
                needs=needs,
                ours=ours,
                complaint="" if complaint == "ok" else complaint,
                locked=_is_locked(connection),
            )
            return _with_sessions(connection, inspection, owners) if inspection.readable else inspection
    except sqlite3.Error as error:
        raise StoreError(f"the database {path} could not be read: {error}") from error


def _schema(connection: sqlite3.Connection) -> tuple[int, int]:
    known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema'").fetchone()
    row = connection.execute("SELECT version, min_reader FROM schema").fetchone() if known else None
    return (row[0], row[1]) if row else (0, 0)


def _is_locked(connection: sqlite3.Connection) -> bool:
    """Whether another process holds the write lock for longer than asyncagents ever does."""
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return True
    connection.execute("ROLLBACK")
    return False


def _with_sessions(
    connection: sqlite3.Connection, inspection: SqliteInspection, owners: dict[OwnerId, bool]
) -> SqliteInspection:
    (sessions,) = connection.execute("SELECT COUNT(*) FROM session").fetchone()
    busy = connection.execute("SELECT state, owner FROM session WHERE state <> 'idle'").fetchall()
    left = sum(state == "ready" or not owners.get(OwnerId(owner), False) for state, owner in busy)
    return SqliteInspection(
        schema=inspection.schema,
        needs=inspection.needs,
        ours=inspection.ours,
        complaint=inspection.complaint,
        locked=inspection.locked,
        sessions=sessions,
        left=left,
    )


def owners_in(directory: Path) -> dict[OwnerId, bool]:
    """Map every owner with a lock file to whether it lives."""
    return {OwnerId(path.stem): is_lock_held(path) for path in sorted(directory.glob("*.lock"))}
