"""Group commit: many verbs, each in a savepoint, in one transaction with one sync."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.domain.clock import Clock
from asyncagents.domain.id import Ids
from asyncagents.errors import AsyncAgentsError, DatabaseGone, SchemaMismatch, StoreError
from asyncagents.store.sqlite.connection import BUSY_TIMEOUT_MS, Connect, Connection, is_busy
from asyncagents.store.sqlite.database_file import DatabaseFile
from asyncagents.store.sqlite.migrate import refuse_newer
from asyncagents.store.sqlite.statement import migration_files
from asyncagents.store.sqlite.transaction import RevisionCounter, SqliteTx, run_sync
from asyncagents.store.tx import Commit, Verb
from asyncagents.store.verb.feed import read_changes, revision

UNSEEN = -1
MAX_ARRIVED = 500
"""Max messages of an arrival to report: they are read under the write lock; `read_feed` has them all."""
KEEP_MARKS = 100_000
"""Marks of ended writers are deleted after so many revisions; a live writer checks its own at once."""


class VerbOutcome(Struct):
    """The outcome of one verb: its value, or the error for its caller."""

    value: Any = None
    error: Exception | None = None


class UncommittedBatch(Struct, frozen=True):
    """The outcomes of verbs in a transaction that is not committed yet."""

    outcomes: list[VerbOutcome]
    report: Commit
    version: int
    wrote: bool


class TransactionUndone(Exception):
    """A transaction was rolled back."""


class GroupCommit:
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
        self._place = DatabaseFile(path)
        self._version = self._data_version()
        self._check_schema()
        self._seen = run_sync(revision(self._tx()))

    def close(self) -> None:
        self._connection.close()

    def open_connection(self) -> Connection:
        """Open another connection to the same file, for another thread."""
        return self._connect(self._path)

    def run(self, verbs: Sequence[Verb[Any]]) -> tuple[list[VerbOutcome], Commit]:
        """Commit verbs together; the failure of one does not affect the others."""
        return self._with_retry(verbs, lambda: self._transaction(verbs))

    def _with_retry(
        self, verbs: Sequence[Verb[Any]], commit: Callable[[], tuple[list[VerbOutcome], Commit]]
    ) -> tuple[list[VerbOutcome], Commit]:
        try:
            return commit()
        except TransactionUndone:
            commit_report = empty_commit()
            outcomes = [self._run_alone(verb, commit_report) for verb in verbs]
            return outcomes, replace(commit_report, upto=self._seen)
        except (SchemaMismatch, DatabaseGone) as error:
            return [VerbOutcome(error=error) for _ in verbs], empty_commit()
        except sqlite3.Error as error:
            return [VerbOutcome(error=_failure(error)) for _ in verbs], empty_commit()

    def _run_alone(self, verb: Verb[Any], commit_report: Commit) -> VerbOutcome:
        """Run one verb in a transaction of its own: its second and last try."""
        try:
            (outcome,), more = self._transaction([verb])
        except DatabaseGone as error:
            return VerbOutcome(error=error)
        except (TransactionUndone, sqlite3.Error) as error:
            return VerbOutcome(error=_failure(error))
        _add_to_report(commit_report, more)
        return outcome

    def _transaction(self, verbs: Sequence[Verb[Any]]) -> tuple[list[VerbOutcome], Commit]:
        """Raises `TransactionUndone` if it may be tried again, `sqlite3.Error` if the file is out of reach,
        `SchemaMismatch` if a newer program changed the schema, `DatabaseGone` if the file was replaced."""
        self._place.check()
        with self._use_connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            return self._commit_batch(self._run_batch(verbs))

    def _run_batch(self, verbs: Sequence[Verb[Any]]) -> UncommittedBatch:
        """Run verbs in a transaction that has begun."""
        try:
            counter = RevisionCounter(run_sync(revision(self._tx())))
            commit_report, version = self._foreign_changes(counter.last)
            if self._outdated:
                raise SchemaMismatch(self._outdated)
            outcomes, wrote = self._run_members(verbs, commit_report, counter)
            if wrote:
                self._mark(counter.last)
        except sqlite3.Error as error:
            raise TransactionUndone(str(error)) from error
        return UncommittedBatch(outcomes, replace(commit_report, upto=counter.last), version, wrote)

    def _commit_batch(self, batch: UncommittedBatch) -> tuple[list[VerbOutcome], Commit]:
        self._commit(batch.report.upto, batch.version, wrote=batch.wrote)
        return batch.outcomes, batch.report

    def begin(self, verbs: Sequence[Verb[Any]]) -> UncommittedBatch | None:
        """Run verbs without waiting for a lock, and without the commit. None: another process writes, or an
        error occurred; then nothing is done, and `run` does it or reports the error."""
        if self._dropped:
            return None
        try:
            self._place.check()
            with self._use_connection() as connection:
                return self._run_batch(verbs) if self._try_begin(connection) else None
        except Exception:  # noqa: BLE001  `run` meets the same error and reports it
            return None

    def _try_begin(self, connection: Connection) -> bool:
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

    def finish(self, verbs: Sequence[Verb[Any]], batch: UncommittedBatch) -> tuple[list[VerbOutcome], Commit]:
        """Commit what `begin` did; waits for the disk."""
        return self._with_retry(verbs, lambda: self._commit_begun(batch))

    def _commit_begun(self, batch: UncommittedBatch) -> tuple[list[VerbOutcome], Commit]:
        with self._use_connection():
            return self._commit_batch(batch)

    def _run_members(
        self, verbs: Sequence[Verb[Any]], commit_report: Commit, counter: RevisionCounter
    ) -> tuple[list[VerbOutcome], bool]:
        """Run all verbs in one savepoint, which is a fifth cheaper; if one fails, each in its own."""
        before, execute = counter.last, self._connection.execute
        execute("SAVEPOINT members")
        together = self._run_together(verbs, counter)
        if together is None:
            execute("ROLLBACK TO members")
            counter.last = before
        execute("RELEASE members")
        if together is None:
            return self._run_apart(verbs, commit_report, counter)
        for _, tx in together:
            _add_to_report(commit_report, tx)
        return [outcome for outcome, _ in together], any(tx.wrote for _, tx in together)

    def _run_together(
        self, verbs: Sequence[Verb[Any]], counter: RevisionCounter
    ) -> list[tuple[VerbOutcome, SqliteTx]] | None:
        """Run verbs without savepoints of their own. None: one of them failed."""
        done = []
        for verb in verbs:
            outcome, tx = self._run_verb(verb, counter)
            if not self._connection.in_transaction:
                raise TransactionUndone(str(outcome.error)) from outcome.error
            if outcome.error is not None:
                return None
            done.append((outcome, tx))
        return done

    def _run_apart(
        self, verbs: Sequence[Verb[Any]], commit_report: Commit, counter: RevisionCounter
    ) -> tuple[list[VerbOutcome], bool]:
        """Run each verb in its savepoint. An error may end the whole transaction; a full disk does."""
        execute, outcomes, wrote = self._connection.execute, [], False
        for verb in verbs:
            before = counter.last
            execute("SAVEPOINT member")
            outcome, tx = self._run_verb(verb, counter)
            if self._connection.in_transaction is False:
                raise TransactionUndone(str(outcome.error)) from outcome.error
            if outcome.error is not None:
                execute("ROLLBACK TO member")
                counter.last = before
            else:
                _add_to_report(commit_report, tx)
                wrote = wrote or tx.wrote
            execute("RELEASE member")
            outcomes.append(outcome)
        return outcomes, wrote

    def _mark(self, seen: int) -> None:
        """Write a mark with the batch: if the answer to COMMIT is lost, it shows whether that succeeded."""
        if not self._marked:
            self._connection.execute(self._sql["forget_marks"], (seen - KEEP_MARKS,))
        self._marked += 1
        self._connection.execute(self._sql["mark"], (self._name, self._marked, seen))
        self._connection.execute(self._sql["save_rev"], (seen,))

    def _commit(self, seen: int, version: int, *, wrote: bool) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._drop()
            if wrote and not self._is_committed(error):
                raise TransactionUndone(str(error)) from error
            version = UNSEEN
        self._seen, self._version = seen, version

    def _is_committed(self, error: sqlite3.Error) -> bool:
        """Whether the batch is on disk, by its mark; after a failed commit only a new connection knows."""
        try:
            with self._use_connection() as connection:
                row = connection.execute(self._sql["marked"], (self._name,)).fetchone()
        except sqlite3.Error as worse:
            doubt = f"{error}; whether the write was done is not known: {worse}"
            raise sqlite3.OperationalError(doubt) from error
        return row is not None and row[0] == self._marked

    def _run_verb(self, verb: Verb[Any], counter: RevisionCounter) -> tuple[VerbOutcome, SqliteTx]:
        tx = self._tx(counter)
        try:
            return VerbOutcome(value=run_sync(verb(tx))), tx  # type: ignore[arg-type]
        except AsyncAgentsError as error:
            return VerbOutcome(error=error), tx
        except sqlite3.Error as error:
            return VerbOutcome(error=_failure(error)), tx
        except Exception as error:  # noqa: BLE001  a bug in a verb is its caller's, not its neighbours'
            return VerbOutcome(error=error), tx

    def _tx(self, counter: RevisionCounter | None = None) -> SqliteTx:
        return SqliteTx(self._connection, self._sql, now=self._clock.now(), ids=self._ids, counter=counter)

    def poll(self) -> Commit:
        """Read what other processes committed since the last look."""
        if self._dropped and self._place.is_gone:
            return empty_commit()
        with self._use_connection() as connection:
            if self._data_version() == self._version:
                return empty_commit()
            connection.execute("BEGIN")
            seen = run_sync(revision(self._tx()))
            commit_report, version = self._foreign_changes(seen)
            self._commit(seen, version, wrote=False)
            return replace(commit_report, upto=seen)

    def _foreign_changes(self, upto: int) -> tuple[Commit, int]:
        """Read the commits of other processes; within a transaction, so that none is missed before ours."""
        version = self._data_version()
        if version == self._version:
            return empty_commit(), version
        self._check_schema()
        found = run_sync(read_changes(self._tx(), self._seen, upto, most_arrived=MAX_ARRIVED))
        return Commit(found.events, found.sessions, found.interrupted, found.due, found.posts), version

    def _check_schema(self) -> None:
        try:
            refuse_newer(self._connection, self._schema)
        except SchemaMismatch as error:
            self._outdated = str(error)

    def _data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def _use_connection(self) -> Iterator[Connection]:
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


def empty_commit() -> Commit:
    return Commit([], [], [], [])


def _add_to_report(commit_report: Commit, more: Commit | SqliteTx) -> None:
    commit_report.events.extend(more.events)
    commit_report.woken.extend(more.woken)
    commit_report.interrupted.extend(more.interrupted)
    commit_report.due.extend(more.due)
    commit_report.posts.extend(more.posts)


def _failure(error: Exception) -> StoreError:
    failure = StoreError(f"the database could not be written: {error}")
    failure.__cause__ = error
    return failure
