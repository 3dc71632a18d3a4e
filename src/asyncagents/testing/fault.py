"""An SQLite connection that crashes or fails at a commit, as a plan decides."""

import sqlite3
from typing import Any, Literal, Protocol, TypeAlias

from asyncagents.store.sqlite.connection import Connection, SqliteCursor

Fault: TypeAlias = Literal["crash_before", "crash_after", "fail_before", "fail_after"]


class Crash(BaseException):
    """The simulated process dies here; only the simulation catches it."""


class FaultPlan(Protocol):
    """Decides which operations fail."""

    dead: bool

    def commit(self) -> Fault | None:
        """Return the fault of this commit: crash before or after it, or report failure, committed or not."""
        ...

    def full(self) -> bool:
        """Return whether the disk is full at this write; SQLite then rolls back the transaction."""
        ...


class FaultyConnection:
    def __init__(self, real: Connection, plan: FaultPlan) -> None:
        self._real = real
        self._plan = plan
        self._writing = False

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def close(self) -> None:
        self._real.close()

    def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> SqliteCursor:
        if self._plan.dead:
            raise sqlite3.OperationalError("this process is dead")
        if sql.startswith("BEGIN"):
            self._writing = sql == "BEGIN IMMEDIATE"
        if sql == "COMMIT" and self._writing:
            return self._commit()
        if sql.startswith(("INSERT", "UPDATE")) and self._plan.full():
            self._real.execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full")
        return self._real.execute(sql, params)

    def _commit(self) -> SqliteCursor:
        fault = self._plan.commit()
        if fault == "crash_before":
            raise Crash
        if fault == "fail_before":
            self._real.execute("ROLLBACK")
            raise sqlite3.OperationalError("disk I/O error")
        done = self._real.execute("COMMIT")
        if fault == "crash_after":
            raise Crash
        if fault == "fail_after":
            raise sqlite3.OperationalError("disk I/O error")
        return done
