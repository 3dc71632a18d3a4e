"""Reads what other processes committed, up to the oldest transaction that is still in progress."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from asyncagents.domain.id import SessionId
from asyncagents.errors import Closed
from asyncagents.store.postgres.transaction import PostgresTx
from asyncagents.store.tx import Commit, Row, Tx, Verb
from asyncagents.store.verb.feed import FeedChanges, RowReader, read_changes, revision

T = TypeVar("T")
_REVISION_FIRST = frozenset(
    f"changed_{each}" for each in ("sessions", "messages", "parts", "calls", "todos", "tasks", "tombstones")
)
"""Statements whose first column is the revision."""
IDLE_POLL_SECONDS = 0.1
"""Pause between reads of a process without listeners and waiters: its work comes by the queue."""
_AFTER_ALL_REVISIONS = 2**62
"""Higher than every revision."""

_log = logging.getLogger(__name__)


class CommitDatabase(Protocol):
    async def read(self, verb: Verb[T]) -> T: ...
    async def query(self, statement: str, *params: object) -> list[Row]: ...
    def report(self, commit: Commit) -> None: ...
    def begin_work(self, work: Coroutine[Any, Any, Any]) -> None: ...


class RemoteCommits:
    def __init__(self, database: CommitDatabase) -> None:
        self._database = database
        self._open_transactions: dict[PostgresTx, None] = {}
        """Transactions of this process that are in progress: they report themselves."""
        self._own_revisions: set[int] = set()
        """Revisions above `_seen` that this process committed and reported."""
        self._seen: int | None = None
        self._looking = False
        self._again = False
        self._reported_sessions: set[SessionId | None] = set()
        """Sessions of which this process reported events since the last read began."""
        self.has_listeners: Callable[[], bool] = lambda: True
        """Whether this process has listeners that need all events, not only those that runs depend on."""
        self.has_waiters: Callable[[], bool] = lambda: False
        """Whether callers in this process wait for what comes next."""

    @contextmanager
    def track(self, tx: PostgresTx) -> Iterator[None]:
        self._open_transactions[tx] = None
        try:
            yield
        finally:
            del self._open_transactions[tx]

    def add_own_commit(self, rev: int, sessions: Iterable[SessionId | None]) -> None:
        self._reported_sessions.update(sessions)
        if rev and self._seen is not None and rev > self._seen:
            self._own_revisions.add(rev)

    def schedule_read(self) -> None:
        self._again = True
        if not self._looking:
            self._looking = True
            self._database.begin_work(self._read_loop())

    async def _read_loop(self) -> None:
        try:
            while self._again:
                if self._seen is not None and not (self.has_listeners() or self.has_waiters()):
                    await asyncio.sleep(IDLE_POLL_SECONDS)
                self._again = False
                await self._read_once()
        except Closed:
            pass  # the store was closed during the pause
        except Exception:  # noqa: BLE001  the edge of a background task
            _log.warning("database action=poll: reading remote commits failed; will retry", exc_info=True)
        finally:
            self._looking = False

    async def _read_once(self) -> None:
        self._reported_sessions.clear()
        whole = self.has_listeners()
        upto, found = await (self._read_all() if whole else self._read_work())
        if self.has_listeners() and not whole:  # a new listener would miss what was left out
            self._again = True
            return
        if found is not None and any(event.session_id in self._reported_sessions for event in found.events):
            self._again = True  # what was read is older than what this process has reported: read again
            return
        if upto <= (self._seen or 0) and self._seen is not None:
            return
        self._seen = upto
        self._own_revisions = {rev for rev in self._own_revisions if rev > upto}
        if found is None:
            found = FeedChanges([], [], [], [], [])
        self._database.report(
            Commit(found.events, found.sessions, found.interrupted, found.due, found.posts, upto=upto)
        )

    async def _read_all(self) -> tuple[int, FeedChanges | None]:
        return await self._database.read(self._changes)

    async def _changes(self, tx: Tx) -> tuple[int, FeedChanges | None]:
        upto = self._committed_upto(await revision(tx))
        if self._seen is None or upto <= self._seen:
            return upto, None
        return upto, await read_changes(_ForeignRows(tx, self._own_revisions), self._seen, upto)

    async def _read_work(self) -> tuple[int, FeedChanges | None]:
        """Read what runs depend on, by one statement, because every process does it all the time."""
        rows = await self._database.query(
            "changed_work", _AFTER_ALL_REVISIONS if self._seen is None else self._seen
        )
        upto = self._committed_upto(next(row[1] for row in rows if row[0] == "revision"))
        if self._seen is None or upto <= self._seen:
            return upto, None
        found = _WorkRows(rows, upto)
        return upto, await read_changes(
            _ForeignRows(found, self._own_revisions), self._seen, upto, whole=False
        )

    def _committed_upto(self, upto: int) -> int:
        """Limit a revision to those below the open transactions of this process."""
        ours = [each.known_rev for each in self._open_transactions if each.xid]
        return min([upto, *(rev - 1 for rev in ours)])


class _WorkRows:
    """The rows of `changed_work`, split into those of the statements that it combines."""

    now = 0

    def __init__(self, rows: list[Row], upto: int) -> None:
        self._rows: dict[str, list[Row]] = {}
        for row in rows:
            if row[1] is None or row[1] <= upto:  # due times have no revision: they may be reported twice
                self._rows.setdefault(row[0], []).append(_as_statement_row(row))

    async def one(self, statement: str, *params: object) -> Row | None:
        return next(iter(self._rows.get(statement, [])), None)

    async def all(self, statement: str, *params: object) -> list[Row]:
        return self._rows.get(statement, [])


def _as_statement_row(row: Row) -> Row:
    statement, rev, first, second, third, body, number = row
    match statement:
        case "changed_inputs":
            return first, second, third, number
        case "changed_tombstones":
            return rev, first, second, body
        case "changed_sessions":
            return rev, first, None, None, None, number
        case _:
            return (number,)


class _ForeignRows:
    """Leaves out the rows that this process has committed and reported."""

    def __init__(self, rows: RowReader, own: set[int]) -> None:
        self._rows = rows
        self._own = own
        self.now, self.one = rows.now, rows.one

    async def all(self, statement: str, *params: object) -> list[Row]:
        rows = await self._rows.all(statement, *params)
        if statement in _REVISION_FIRST:
            return [row for row in rows if row[0] not in self._own]
        return rows
