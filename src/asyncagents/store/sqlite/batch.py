"""Group commit: many verbs, each in a savepoint, one transaction, one sync."""

import sqlite3
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from asyncagents.domain.event import Event
from asyncagents.domain.id import Ids, SessionId
from asyncagents.domain.port import Clock
from asyncagents.errors import AsyncAgentsError, StoreError
from asyncagents.store.sqlite.connection import Connect, Connection
from asyncagents.store.tx import Commit, Row, Verb
from asyncagents.store.verb.feed import changes, revision

T = TypeVar("T")


class SqliteTx:
    """A transaction as verbs see it. Its coroutines never suspend, so a thread can drive them."""

    __slots__ = ("_execute", "_rev", "_sql", "again", "due", "events", "ids", "interrupted", "now", "woken")

    def __init__(
        self, connection: Connection, sql: dict[str, str], *, now: int, ids: Ids, again: bool = False
    ) -> None:
        self._execute = connection.execute
        self._sql = sql
        self._rev = 0
        self.now = now
        self.ids = ids
        self.again = again
        self.events: list[Event] = []
        self.woken: list[SessionId] = []
        self.interrupted: list[SessionId] = []
        self.due: list[int] = []

    async def one(self, statement: str, *params: object) -> Row | None:
        row: Row | None = self._execute(self._sql[statement], params).fetchone()
        return row

    async def all(self, statement: str, *params: object) -> list[Row]:
        return self._execute(self._sql[statement], params).fetchall()

    async def rev(self) -> int:
        if not self._rev:
            self._rev = self._execute(self._sql["next_rev"]).fetchone()[0]
        return self._rev

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def wake(self, session_id: SessionId) -> None:
        self.woken.append(session_id)

    def interrupt(self, session_id: SessionId) -> None:
        self.interrupted.append(session_id)

    def expect(self, due: int) -> None:
        self.due.append(due)


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a verb to its end here and now."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise RuntimeError("a store verb waited for something; verbs only use their transaction")


class Outcome(Struct):
    """What became of one verb: its value, or the error its caller gets."""

    value: Any = None
    error: Exception | None = None


class Batches:
    """Owns the writing connection. One thread, or a simulation, calls it; never two at a time."""

    def __init__(self, path: Path, connect: Connect, *, sql: dict[str, str], clock: Clock, ids: Ids) -> None:
        self._path = path
        self._connect = connect
        self._sql = sql
        self._clock = clock
        self._ids = ids
        self._connection = connect(path)
        self._version = self._data_version()
        self._seen = drive(revision(self._tx()))

    def close(self) -> None:
        self._connection.close()

    def run(self, verbs: Sequence[Verb[Any]]) -> tuple[list[Outcome], Commit]:
        """Commit them together; whatever goes wrong with one leaves the others whole."""
        again = False
        try:
            done = self._together(verbs) if len(verbs) > 1 else None
        except sqlite3.Error:
            self._reopen()
            done, again = None, True
        if done is not None:
            return done
        report = Commit([], [], [], [])
        return [self._alone(verb, report, again=again) for verb in verbs], report

    def _together(self, verbs: Sequence[Verb[Any]]) -> tuple[list[Outcome], Commit] | None:
        """None: an error took the whole transaction with it (a full disk does), so nothing was done."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        report, version = self._foreign()
        outcomes: list[Outcome] = []
        for verb in verbs:
            connection.execute("SAVEPOINT member")
            outcome, tx = self._try(verb)
            if not connection.in_transaction:
                return None
            if outcome.error is not None:
                connection.execute("ROLLBACK TO member")
            else:
                _add(report, tx)
            connection.execute("RELEASE member")
            outcomes.append(outcome)
        self._commit(version)
        return outcomes, report

    def _alone(self, verb: Verb[Any], report: Commit, *, again: bool) -> Outcome:
        """One verb, one transaction. A commit that fails is tried once more, on a fresh connection."""
        try:
            return self._one(verb, report, again=again)
        except sqlite3.Error:
            self._reopen()
        try:
            return self._one(verb, report, again=True)
        except sqlite3.Error as error:
            self._reopen()
            return Outcome(error=_failure("the database could not be written", error))

    def _one(self, verb: Verb[Any], report: Commit, *, again: bool) -> Outcome:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        foreign, version = self._foreign()
        outcome, tx = self._try(verb, again=again)
        if outcome.error is not None:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return outcome
        self._commit(version)
        _add(report, foreign)
        _add(report, tx)
        return outcome

    def _commit(self, version: int) -> None:
        seen = drive(revision(self._tx()))
        self._connection.execute("COMMIT")
        self._seen, self._version = seen, version

    def _try(self, verb: Verb[Any], *, again: bool = False) -> tuple[Outcome, SqliteTx]:
        tx = self._tx(again=again)
        try:
            return Outcome(value=drive(verb(tx))), tx  # type: ignore[arg-type]
        except AsyncAgentsError as error:
            return Outcome(error=error), tx
        except sqlite3.Error as error:
            return Outcome(error=_failure("the database refused a write", error)), tx
        except Exception as error:  # noqa: BLE001  a bug in a verb is its caller's, not its neighbours'
            return Outcome(error=error), tx

    def _tx(self, *, again: bool = False) -> SqliteTx:
        return SqliteTx(self._connection, self._sql, now=self._clock.now(), ids=self._ids, again=again)

    def poll(self) -> Commit:
        """What other processes committed since this connection last looked."""
        if self._data_version() == self._version:
            return Commit([], [], [], [])
        self._connection.execute("BEGIN")
        report, version = self._foreign()
        self._commit(version)
        return report

    def _foreign(self) -> tuple[Commit, int]:
        """Inside a transaction: no other commit can slip between this look and our own commit."""
        version = self._data_version()
        if version == self._version:
            return Commit([], [], [], []), version
        tx = self._tx()
        found = drive(changes(tx, self._seen, drive(revision(tx))))
        return Commit(found.events, found.sessions, found.interrupted, []), version

    def _data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _reopen(self) -> None:
        """After a failed commit only a fresh connection knows what is on the disk."""
        self._connection.close()
        self._connection = self._connect(self._path)
        self._version = -1  # look at everything since the last revision we saw


def _add(report: Commit, more: Commit | SqliteTx) -> None:
    report.events.extend(more.events)
    report.woken.extend(more.woken)
    report.interrupted.extend(more.interrupted)
    report.due.extend(more.due)


def _failure(what: str, error: sqlite3.Error) -> StoreError:
    failure = StoreError(f"{what}: {error}")
    failure.__cause__ = error
    return failure
