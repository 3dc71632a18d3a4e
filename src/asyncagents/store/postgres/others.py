"""What other processes commit: read from the rows, up to the oldest transaction that is still under way."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from asyncagents.domain.id import SessionId
from asyncagents.errors import Closed
from asyncagents.store.postgres.transaction import PostgresTx
from asyncagents.store.tx import Commit, Row, Tx, Verb
from asyncagents.store.verb.feed import Changes, Rows, changes, revision

T = TypeVar("T")
_OWN_FIRST = frozenset(
    f"changed_{each}" for each in ("sessions", "messages", "parts", "calls", "todos", "tasks", "tombstones")
)
"""Their first column is the revision."""
QUIET_SECONDS = 0.1
"""Between the looks of a process in which nobody listens or waits: what it works on comes by the queue."""
_NOWHERE = 2**62
"""No revision is after it."""

_log = logging.getLogger(__name__)


class Telling(Protocol):
    async def read(self, verb: Verb[T]) -> T: ...
    async def ask(self, statement: str, *params: object) -> list[Row]: ...
    def report(self, commit: Commit) -> None: ...
    def begin_work(self, work: Coroutine[Any, Any, Any]) -> None: ...


class Others:
    def __init__(self, database: Telling) -> None:
        self._database = database
        self._flying: dict[PostgresTx, None] = {}
        """Ours that are under way: what they did is told by themselves."""
        self._told: set[int] = set()
        """Ours that were, above `_seen`."""
        self._seen: int | None = None
        self._looking = False
        self._again = False
        self._meanwhile: set[SessionId | None] = set()
        """Of which ours have told something since the last look began."""
        self.wanted: Callable[[], bool] = lambda: True
        """Whether anybody listens to more than what work depends on."""
        self.urgent: Callable[[], bool] = lambda: False
        """Whether anybody waits for what comes next."""

    @contextmanager
    def aware_of(self, tx: PostgresTx) -> Iterator[None]:
        self._flying[tx] = None
        try:
            yield
        finally:
            del self._flying[tx]

    def reported(self, rev: int, sessions: Iterable[SessionId | None]) -> None:
        self._meanwhile.update(sessions)
        if rev and self._seen is not None and rev > self._seen:
            self._told.add(rev)

    def look_soon(self) -> None:
        self._again = True
        if not self._looking:
            self._looking = True
            self._database.begin_work(self._look())

    async def _look(self) -> None:
        try:
            while self._again:
                if self._seen is not None and not (self.wanted() or self.urgent()):
                    await asyncio.sleep(QUIET_SECONDS)
                self._again = False
                await self._step()
        except Closed:
            pass  # while we waited
        except Exception:  # noqa: BLE001  nobody waits for it
            _log.warning("could not look for what other processes did; trying again", exc_info=True)
        finally:
            self._looking = False

    async def _step(self) -> None:
        self._meanwhile.clear()
        whole = self.wanted()
        upto, found = await (self._whole() if whole else self._work())
        if self.wanted() and not whole:  # somebody came meanwhile, who would miss what was left out
            self._again = True
            return
        if found is not None and any(event.session_id in self._meanwhile for event in found.events):
            self._again = True  # what was read is older than what ours told meanwhile: read again
            return
        if upto <= (self._seen or 0) and self._seen is not None:
            return
        self._seen = upto
        self._told = {rev for rev in self._told if rev > upto}
        if found is None:
            found = Changes([], [], [], [], [])
        self._database.report(
            Commit(found.events, found.sessions, found.interrupted, found.due, found.posts, upto=upto)
        )

    async def _whole(self) -> tuple[int, Changes | None]:
        return await self._database.read(self._changes)

    async def _changes(self, tx: Tx) -> tuple[int, Changes | None]:
        upto = self._bounded(await revision(tx))
        if self._seen is None or upto <= self._seen:
            return upto, None
        return upto, await changes(_Foreign(tx, self._told), self._seen, upto)

    async def _work(self) -> tuple[int, Changes | None]:
        """What work depends on, by one statement: all processes ask for it all the time."""
        rows = await self._database.ask("changed_work", _NOWHERE if self._seen is None else self._seen)
        upto = self._bounded(next(row[1] for row in rows if row[0] == "revision"))
        if self._seen is None or upto <= self._seen:
            return upto, None
        found = _Gathered(rows, upto)
        return upto, await changes(_Foreign(found, self._told), self._seen, upto, whole=False)

    def _bounded(self, upto: int) -> int:
        """All up to where nothing is under way any more, but for what this process does itself."""
        ours = [each.known_rev for each in self._flying if each.xid]
        return min([upto, *(rev - 1 for rev in ours)])


class _Gathered:
    """The rows of `changed_work`, as the statements give them that it stands for."""

    now = 0

    def __init__(self, rows: list[Row], upto: int) -> None:
        self._rows: dict[str, list[Row]] = {}
        for row in rows:
            if row[1] is None or row[1] <= upto:  # what is due has no revision: it may be told twice
                self._rows.setdefault(row[0], []).append(_as_asked(row))

    async def one(self, statement: str, *params: object) -> Row | None:
        return next(iter(self._rows.get(statement, [])), None)

    async def all(self, statement: str, *params: object) -> list[Row]:
        return self._rows.get(statement, [])


def _as_asked(row: Row) -> Row:
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


class _Foreign:
    """Leaves out what this process has told of itself."""

    def __init__(self, rows: Rows, own: set[int]) -> None:
        self._rows = rows
        self._own = own
        self.now, self.one = rows.now, rows.one

    async def all(self, statement: str, *params: object) -> list[Row]:
        rows = await self._rows.all(statement, *params)
        if statement in _OWN_FIRST:
            return [row for row in rows if row[0] not in self._own]
        return rows
