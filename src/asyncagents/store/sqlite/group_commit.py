"""Group commit: many verbs, each in a savepoint, in one transaction with one sync."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.id import Ids
from asyncagents.domain.port import Clock
from asyncagents.errors import AsyncAgentsError, DatabaseGone, SchemaMismatch, StoreError
from asyncagents.store.sqlite.connection import BUSY_TIMEOUT_MS, Connect, Connection, is_busy
from asyncagents.store.sqlite.database_file import Place
from asyncagents.store.sqlite.migrate import refuse_newer
from asyncagents.store.sqlite.statement import migration_files
from asyncagents.store.sqlite.transaction import Counter, SqliteTx, drive
from asyncagents.store.tx import Commit, Verb
from asyncagents.store.verb.feed import changes, revision

UNSEEN = -1
MOST_ARRIVED = 500
"""Max messages of an arrival to report: they are read under the write lock; `read_feed` has them all."""
MARKS_KEPT = 100_000
"""Marks of ended writers are deleted after so many revisions; a live writer checks its own at once."""


class Outcome(Struct):
    """The outcome of one verb: its value, or the error for its caller."""

    value: Any = None
    error: Exception | None = None


class Worked(Struct, frozen=True):
    """The outcomes of verbs in a transaction that is not committed yet."""

    outcomes: list[Outcome]
    report: Commit
    version: int
    wrote: bool


class Undone(Exception):
    """A transaction was rolled back."""


class Batches:
    """Owns the writing connection; its methods are never called concurrently."""

    def __init__(
        self, path: Path, connect: Connect, *, name: str, sql: dict[str, str], clock: Clock, ids: Ids
    ) -> None:
        self._path = path
        self._connect = connect
        self._name = name
        self._sql = sql
        self._clock = clock
        self._ids = ids
        self._marked = 0
        self._dropped = False
        self._schema = len(migration_files())
        self._outdated = ""
        """Why writing is refused: a newer program changed the schema, and our rows would be incomplete."""
        self._connection = connect(path)
        self._place = Place(path)
        self._version = self._data_version()
        self._look_at_schema()
        self._seen = drive(revision(self._tx()))

    def close(self) -> None:
        self._connection.close()

    def connect_again(self) -> Connection:
        """Open another connection to the same file, for another thread."""
        return self._connect(self._path)

    def run(self, verbs: Sequence[Verb[Any]]) -> tuple[list[Outcome], Commit]:
        """Commit verbs together; the failure of one does not affect the others."""
        return self._whole(verbs, lambda: self._transaction(verbs))

    def _whole(
        self, verbs: Sequence[Verb[Any]], commit: Callable[[], tuple[list[Outcome], Commit]]
    ) -> tuple[list[Outcome], Commit]:
        try:
            return commit()
        except Undone:
            report = nothing()
            outcomes = [self._alone(verb, report) for verb in verbs]
            return outcomes, replace(report, upto=self._seen)
        except (SchemaMismatch, DatabaseGone) as error:
            return [Outcome(error=error) for _ in verbs], nothing()
        except sqlite3.Error as error:
            return [Outcome(error=_failure(error)) for _ in verbs], nothing()

    def _alone(self, verb: Verb[Any], report: Commit) -> Outcome:
        """Run one verb in a transaction of its own: its second and last try."""
        try:
            (outcome,), more = self._transaction([verb])
        except DatabaseGone as error:
            return Outcome(error=error)
        except (Undone, sqlite3.Error) as error:
            return Outcome(error=_failure(error))
        _add(report, more)
        return outcome

    def _transaction(self, verbs: Sequence[Verb[Any]]) -> tuple[list[Outcome], Commit]:
        """Raises `TransactionUndone` if it may be tried again, `sqlite3.Error` if the file is out of reach,
        `SchemaMismatch` if a newer program changed the schema, `DatabaseGone` if the file was replaced."""
        self._place.check()
        with self._fragile() as connection:
            connection.execute("BEGIN IMMEDIATE")
            return self._committed(self._work(verbs))

    def _work(self, verbs: Sequence[Verb[Any]]) -> Worked:
        """Run verbs in a transaction that has begun."""
        try:
            counter = Counter(drive(revision(self._tx())))
            report, version = self._foreign(counter.last)
            if self._outdated:
                raise SchemaMismatch(self._outdated)
            outcomes, wrote = self._members(verbs, report, counter)
            if wrote:
                self._mark(counter.last)
        except sqlite3.Error as error:
            raise Undone(str(error)) from error
        return Worked(outcomes, replace(report, upto=counter.last), version, wrote)

    def _committed(self, worked: Worked) -> tuple[list[Outcome], Commit]:
        self._commit(worked.report.upto, worked.version, wrote=worked.wrote)
        return worked.outcomes, worked.report

    def work(self, verbs: Sequence[Verb[Any]]) -> Worked | None:
        """Run verbs without waiting for a lock, and without the commit. None: another process writes, or an
        error occurred; then nothing is done, and `run` does it or reports the error."""
        if self._dropped:
            return None
        try:
            self._place.check()
            with self._fragile() as connection:
                return self._work(verbs) if self._begins(connection) else None
        except Exception:  # noqa: BLE001  `run` meets the same error and reports it
            return None

    def _begins(self, connection: Connection) -> bool:
        """Begin a transaction; False if locked, or if other processes wrote: reading that takes time."""
        if self._data_version() != self._version:
            return False
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
        finally:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        return True

    def finish(self, verbs: Sequence[Verb[Any]], worked: Worked) -> tuple[list[Outcome], Commit]:
        """Commit what `begin` did; waits for the disk."""
        return self._whole(verbs, lambda: self._end(worked))

    def _end(self, worked: Worked) -> tuple[list[Outcome], Commit]:
        with self._fragile():
            return self._committed(worked)

    def _members(
        self, verbs: Sequence[Verb[Any]], report: Commit, counter: Counter
    ) -> tuple[list[Outcome], bool]:
        """Run all verbs in one savepoint, which is a fifth cheaper; if one fails, each in its own."""
        before, execute = counter.last, self._connection.execute
        execute("SAVEPOINT members")
        together = self._together(verbs, counter)
        if together is None:
            execute("ROLLBACK TO members")
            counter.last = before
        execute("RELEASE members")
        if together is None:
            return self._apart(verbs, report, counter)
        for _, tx in together:
            _add(report, tx)
        return [outcome for outcome, _ in together], any(tx.wrote for _, tx in together)

    def _together(
        self, verbs: Sequence[Verb[Any]], counter: Counter
    ) -> list[tuple[Outcome, SqliteTx]] | None:
        """Run verbs without savepoints of their own. None: one of them failed."""
        done = []
        for verb in verbs:
            outcome, tx = self._try(verb, counter)
            if not self._connection.in_transaction:
                raise Undone(str(outcome.error)) from outcome.error
            if outcome.error is not None:
                return None
            done.append((outcome, tx))
        return done

    def _apart(
        self, verbs: Sequence[Verb[Any]], report: Commit, counter: Counter
    ) -> tuple[list[Outcome], bool]:
        """Run each verb in its savepoint. An error may end the whole transaction; a full disk does."""
        execute, outcomes, wrote = self._connection.execute, [], False
        for verb in verbs:
            before = counter.last
            execute("SAVEPOINT member")
            outcome, tx = self._try(verb, counter)
            if self._connection.in_transaction is False:
                raise Undone(str(outcome.error)) from outcome.error
            if outcome.error is not None:
                execute("ROLLBACK TO member")
                counter.last = before
            else:
                _add(report, tx)
                wrote = wrote or tx.wrote
            execute("RELEASE member")
            outcomes.append(outcome)
        return outcomes, wrote

    def _mark(self, seen: int) -> None:
        """Write a mark with the batch: if the answer to COMMIT is lost, it shows whether that succeeded."""
        if not self._marked:
            self._connection.execute(self._sql["forget_marks"], (seen - MARKS_KEPT,))
        self._marked += 1
        self._connection.execute(self._sql["mark"], (self._name, self._marked, seen))
        self._connection.execute(self._sql["save_rev"], (seen,))

    def _commit(self, seen: int, version: int, *, wrote: bool) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._drop()
            if wrote and not self._is_there(error):
                raise Undone(str(error)) from error
            version = UNSEEN
        self._seen, self._version = seen, version

    def _is_there(self, error: sqlite3.Error) -> bool:
        """Whether the batch is on disk, by its mark; after a failed commit only a new connection knows."""
        try:
            with self._fragile() as connection:
                row = connection.execute(self._sql["marked"], (self._name,)).fetchone()
        except sqlite3.Error as worse:
            doubt = f"{error}; whether the write was done is not known: {worse}"
            raise sqlite3.OperationalError(doubt) from error
        return row is not None and row[0] == self._marked

    def _try(self, verb: Verb[Any], counter: Counter) -> tuple[Outcome, SqliteTx]:
        tx = self._tx(counter)
        try:
            return Outcome(value=drive(verb(tx))), tx  # type: ignore[arg-type]
        except AsyncAgentsError as error:
            return Outcome(error=error), tx
        except sqlite3.Error as error:
            return Outcome(error=_failure(error)), tx
        except Exception as error:  # noqa: BLE001  a bug in a verb is its caller's, not its neighbours'
            return Outcome(error=error), tx

    def _tx(self, counter: Counter | None = None) -> SqliteTx:
        return SqliteTx(self._connection, self._sql, now=self._clock.now(), ids=self._ids, counter=counter)

    def poll(self) -> Commit:
        """Read what other processes committed since the last look."""
        if self._dropped and self._place.is_gone:
            return nothing()
        with self._fragile() as connection:
            if self._data_version() == self._version:
                return nothing()
            connection.execute("BEGIN")
            seen = drive(revision(self._tx()))
            report, version = self._foreign(seen)
            self._commit(seen, version, wrote=False)
            return replace(report, upto=seen)

    def _foreign(self, upto: int) -> tuple[Commit, int]:
        """Read the commits of other processes; within a transaction, so that none is missed before ours."""
        version = self._data_version()
        if version == self._version:
            return nothing(), version
        self._look_at_schema()
        found = drive(changes(self._tx(), self._seen, upto, most_arrived=MOST_ARRIVED))
        return Commit(found.events, found.sessions, found.interrupted, found.due, found.posts), version

    def _look_at_schema(self) -> None:
        try:
            refuse_newer(self._connection, self._schema)
        except SchemaMismatch as error:
            self._outdated = str(error)

    def _data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def _fragile(self) -> Iterator[Connection]:
        """Yield the connection; after an error a new one, which reads all since the last revision seen."""
        if self._dropped:
            self._place.check()  # else SQLite would create a new file there
            self._connection = self._connect(self._path)
            self._dropped, self._version = False, UNSEEN
        try:
            yield self._connection
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        """Close the connection at once: an open transaction would keep the write lock."""
        self._dropped = True
        self._connection.close()
        self._place.forget_logs()


def nothing() -> Commit:
    return Commit([], [], [], [])


def _add(report: Commit, more: Commit | SqliteTx) -> None:
    report.events.extend(more.events)
    report.woken.extend(more.woken)
    report.interrupted.extend(more.interrupted)
    report.due.extend(more.due)
    report.posts.extend(more.posts)


def _failure(error: Exception) -> StoreError:
    failure = StoreError(f"the database could not be written: {error}")
    failure.__cause__ = error
    return failure
