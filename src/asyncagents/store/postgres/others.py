"""What other processes commit: read from the rows, up to the oldest transaction that is still under way."""

import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from asyncagents.domain.id import SessionId
from asyncagents.errors import AsyncAgentsError
from asyncagents.store.postgres.transaction import PostgresTx
from asyncagents.store.tx import Commit, Row, Tx, Verb
from asyncagents.store.verb.feed import Changes, changes, revision

T = TypeVar("T")
_OWN_FIRST = frozenset(
    f"changed_{each}" for each in ("sessions", "messages", "parts", "calls", "todos", "tasks", "tombstones")
)
"""Their first column is the revision."""

_log = logging.getLogger(__name__)


class Telling(Protocol):
    async def read(self, verb: Verb[T]) -> T: ...
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
                self._again = False
                await self._step()
        except AsyncAgentsError:
            _log.warning("could not look for what other processes did; trying again", exc_info=True)
        finally:
            self._looking = False

    async def _step(self) -> None:
        self._meanwhile.clear()
        whole = self.wanted()
        upto, found = await self._database.read(lambda tx: self._changes(tx, whole=whole))
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

    async def _changes(self, tx: Tx, *, whole: bool) -> tuple[int, Changes | None]:
        """All up to where nothing is under way any more, but for what this process did itself."""
        upto = await revision(tx)
        ours = [each.known_rev for each in self._flying if each.xid]
        upto = min([upto, *(rev - 1 for rev in ours)])
        if self._seen is None or upto <= self._seen:
            return upto, None
        return upto, await changes(_Foreign(tx, self._told), self._seen, upto, whole=whole)


class _Foreign:
    """Leaves out what this process has told of itself."""

    def __init__(self, tx: Tx, own: set[int]) -> None:
        self._tx = tx
        self._own = own
        self.now, self.ids, self.one, self.run, self.rev = tx.now, tx.ids, tx.one, tx.run, tx.rev
        self.emit, self.wake, self.interrupt = tx.emit, tx.wake, tx.interrupt
        self.expect, self.expect_post = tx.expect, tx.expect_post

    async def all(self, statement: str, *params: object) -> list[Row]:
        rows = await self._tx.all(statement, *params)
        if statement in _OWN_FIRST:
            return [row for row in rows if row[0] not in self._own]
        return rows
