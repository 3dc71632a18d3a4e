"""Opens a connection to a SQLite file, configured so that an acknowledged commit survives a power cut."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

BUSY_TIMEOUT_MS = 10_000
AUTOCHECKPOINT_PAGES = 4_000
"""Pages of the log after which a commit runs the checkpoint itself; usually the checkpointer was first."""


class SqliteCursor(Protocol):
    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    """The part of a connection that the store uses."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> SqliteCursor: ...
    def close(self) -> None: ...


Connect: TypeAlias = Callable[[Path], Connection]


def connect(path: Path) -> Connection:
    return connect_with(path, synchronous="FULL")


def connect_with(path: Path, *, synchronous: str) -> Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    configure(connection, synchronous=synchronous)
    return connection


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds a lock that was not waited for."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def configure(connection: Connection, *, synchronous: str) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    connection.execute("PRAGMA fullfsync = ON")  # macOS: to the disk, not to its cache
    connection.execute("PRAGMA checkpoint_fullfsync = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -8000")
    connection.execute(f"PRAGMA wal_autocheckpoint = {AUTOCHECKPOINT_PAGES}")
