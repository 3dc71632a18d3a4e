"""A connection that fails where a test tells it to."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

from asyncagents.domain.id import Ids
from asyncagents.store.sqlite.connection import Connection, SqliteCursor, connect_with
from asyncagents.store.sqlite.group_commit import GroupCommit
from asyncagents.store.sqlite.statement import load_statements
from asyncagents.testing.clock import FakeClock, SeededRng

Fault: TypeAlias = Literal["before", "after"]


class Faults:
    """What goes wrong next. `connect` is the door; all connections it opened obey."""

    def __init__(self) -> None:
        self.commits: list[Fault | None] = []
        """For each of the next commits: fail before it is done, after it is done, or not at all."""
        self.statements: dict[str, sqlite3.Error] = {}
        """Fail the next statement that begins like this."""
        self.unreachable = False
        """No new connection can be opened."""
        self.spare_pages: int | None = None
        """How far the file may grow on the connections that are opened from now on."""
        self.opened = 0
        self.on_commit: Callable[[], None] = lambda: None

    def connect(self, path: Path) -> Connection:
        if self.unreachable:
            raise sqlite3.OperationalError("unable to open database file")
        self.opened += 1
        self._latest = connect_with(path, synchronous="OFF")
        if self.spare_pages is not None:
            pages = self._latest.execute("PRAGMA page_count").fetchone()[0]
            self._latest.execute(f"PRAGMA max_page_count = {pages + self.spare_pages}")
        return FaultyConnection(self._latest, self)

    def rollback(self, why: str) -> None:
        """As SQLite does when the disk is full: the transaction is gone, and the next statement says why."""
        self._latest.execute("ROLLBACK")
        self.statements["SELECT"] = sqlite3.OperationalError(why)


class FaultyConnection:
    def __init__(self, real: Connection, faults: Faults) -> None:
        self._real = real
        self._faults = faults

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def close(self) -> None:
        self._real.close()

    def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> SqliteCursor:
        for start in list(self._faults.statements):
            if sql.startswith(start):
                raise self._faults.statements.pop(start)
        if sql != "COMMIT" or not self._faults.commits:
            return self._real.execute(sql, params)
        fault = self._faults.commits.pop(0)
        if fault == "before":
            self._real.execute("ROLLBACK")
        cursor = self._real.execute("COMMIT") if fault != "before" else None
        self._faults.on_commit()
        if cursor is None or fault == "after":
            raise sqlite3.OperationalError("disk I/O error")
        return cursor


@contextmanager
def open_batches(path: Path, *, seed: int, faults: Faults | None = None) -> Iterator[GroupCommit]:
    """The writing half of another process, driven by hand: the file must be there."""
    clock, rng = FakeClock(), SeededRng(seed)
    group_commit = GroupCommit(
        path,
        (faults or Faults()).connect,
        name=f"writer-{seed}",
        sql=load_statements(),
        clock=clock,
        ids=Ids(clock, rng),
    )
    try:
        yield group_commit
    finally:
        group_commit.close()
