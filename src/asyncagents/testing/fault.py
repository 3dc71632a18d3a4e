"""A connection that dies, or lies, at a commit; the plan says when."""

import sqlite3
from typing import Any, Literal, Protocol, TypeAlias

from asyncagents.store.sqlite.connection import Connection, Cursor

Fault: TypeAlias = Literal["crash_before", "crash_after", "fail_before", "fail_after"]


class Crash(BaseException):
    """The process died here. Nothing catches it but the simulation."""


class Plan(Protocol):
    """Decides what goes wrong."""

    dead: bool

    def commit(self) -> Fault | None:
        """At this commit: die before or after it, or have it called failed, done or not."""
        ...

    def full(self) -> bool:
        """At this write: the disk is full, and SQLite rolls the whole transaction back."""
        ...


class FaultyConnection:
    def __init__(self, real: Connection, plan: Plan) -> None:
        self._real = real
        self._plan = plan
        self._writing = False

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def close(self) -> None:
        self._real.close()

    def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> Cursor:
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

    def _commit(self) -> Cursor:
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
