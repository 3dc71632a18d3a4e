"""Watches a database on a failing disk: every state a commit may leave there, and what was acknowledged."""

import asyncio
import hashlib
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import apsw

from asyncagents.domain.clock import Rng
from asyncagents.store.sqlite.connection import Connection, SqliteCursor
from asyncagents.store.sqlite.group_commit import GroupCommit
from asyncagents.store.sqlite.group_commit import VerbOutcome as Member
from asyncagents.store.sqlite.transaction import SqliteTx
from asyncagents.store.sqlite.writer import Report
from asyncagents.store.tx import Commit, Tx, Verb
from asyncagents.testing.fault import Crash
from asyncagents.testing.inline_writer import InlineWriter
from asyncagents.testing.power_cut import PowerCut, PowerLost

Outcome: TypeAlias = Literal["kept", "lost", "broken"]
State: TypeAlias = dict[str, str]
"""A mark for the rows of each table."""

MEMBERS = 40
MOVED_EVERY = 5


class Witness:
    def __init__(self) -> None:
        self.acknowledged = 0
        self.verbs: Counter[str] = Counter()
        self.largest = 0
        """So many verbs shared a commit."""
        self._states: dict[int | None, State] = {None: {}}

    def begins(self, database: Path) -> None:
        """This is there before the first commit."""
        with closing(sqlite3.connect(database)) as found:
            self._states = dict([look(found)])

    def commits(self, connection: Any) -> None:
        """Inside a transaction, just before its COMMIT: this is what it leaves if it comes to be."""
        rev, state = look(connection)
        self._states[rev] = state

    def acknowledges(self, verb: str, rev: int) -> None:
        self.verbs[verb] += 1
        self.acknowledged = max(self.acknowledged, rev)

    def judge(self, database: Path, scratch: Path) -> Outcome:
        """It holds what one commit left, whole, and none that was acknowledged is missing.

        Looks at a copy: whoever opens a database changes it.
        """
        shutil.copytree(database.parent, scratch)
        try:
            with closing(sqlite3.connect(scratch / database.name)) as found:
                intact = found.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                rev, state = look(found)
        except sqlite3.DatabaseError:
            return "broken"
        finally:
            shutil.rmtree(scratch)
        if not intact or self._states.get(rev) != state:
            return "broken"
        self._states = {rev: state}
        return "kept" if (rev or 0) >= self.acknowledged else "lost"


def look(connection: Any) -> tuple[int | None, State]:
    """The revision that a database is at, if it has one, and its state."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    state = {name: _mark(connection, name) for (name,) in tables.fetchall()}
    if "revision" not in state:
        return None, state
    return connection.execute("SELECT rev FROM revision").fetchone()[0], state


def _mark(connection: Any, table: str) -> str:
    rows = connection.execute(f'SELECT * FROM "{table}"').fetchall()  # noqa: S608  its own schema names it
    return hashlib.blake2b(repr(rows).encode(), digest_size=16).hexdigest()


class PoweredConnection:
    """A connection to the failing disk. Who notices the cut dies of it; who comes later is dead already."""

    def __init__(self, power: PowerCut, name: str, witness: Witness) -> None:
        self._real: apsw.Connection = power.connect(name)
        self._power = power
        self._witness = witness
        self._writing = False

    @property
    def in_transaction(self) -> bool:
        return not self._power.dead and self._real.in_transaction

    def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> SqliteCursor:
        if self._power.dead:
            raise sqlite3.OperationalError("this process is dead")
        if sql.startswith("BEGIN"):
            self._writing = sql == "BEGIN IMMEDIATE"
        if sql == "COMMIT" and self._writing:
            self._witness.commits(self._real)
        try:
            return cast(SqliteCursor, self._real.execute(sql, params))
        except PowerLost as lost:
            raise Crash from lost

    def close(self) -> None:
        if self._power.dead:
            return
        try:
            self._real.close()
        except PowerLost as lost:
            raise Crash from lost


class WatchedWriter(InlineWriter):
    """Many verbs in one commit; the witness hears of each that was acknowledged."""

    def __init__(
        self,
        group_commit: GroupCommit,
        report: Report,
        *,
        rng: Rng,
        died: Callable[[], None],
        witness: Witness,
    ) -> None:
        super().__init__(group_commit, report, rng=rng, died=died, max_batch=MEMBERS)
        self._witness = witness
        self._beside: Connection | None = None

    def move_the_log_beside(self) -> None:
        """From here on another connection does it, before any commit, as a thread would."""
        self._beside = self._batches.open_connection()

    def _tick(self) -> None:
        if self._beside is not None and not self.dead and not self._rng.below(MOVED_EVERY):
            try:
                self._beside.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            except Crash:
                self._on_crash()
        super()._tick()

    def _commit_batch(self, verbs: list[Verb[Any]]) -> tuple[list[Member], Commit]:
        done = super()._commit_batch(verbs)
        self._witness.largest = max(self._witness.largest, len(verbs))
        return done

    async def close(self) -> None:
        if self._beside is not None:
            self._beside.close()
        await super().close()

    def submit(self, verb: Verb[Any], *, inline: bool = False) -> asyncio.Future[Any]:
        took: list[int] = []

        async def noted(tx: Tx) -> Any:
            value = await verb(tx)
            took.append(await tx.rev() if cast(SqliteTx, tx).wrote else 0)
            return value

        def done(future: asyncio.Future[Any]) -> None:
            if not future.cancelled() and future.exception() is None:
                self._witness.acknowledges(verb.__qualname__.split(".")[1], took[-1])

        future = super().submit(noted, inline=inline)
        future.add_done_callback(done)
        return future
