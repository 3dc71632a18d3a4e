"""The SQLite transaction that verbs use, and `run_sync`, which runs a verb without an event loop."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from asyncagents.domain.event import Event
from asyncagents.domain.id import Ids, SessionId
from asyncagents.errors import InvalidInput
from asyncagents.store.sqlite.connection import Connection
from asyncagents.store.tx import Row

T = TypeVar("T")


class RevisionCounter:
    """Counts the revisions of one transaction: read when it begins, written back before it commits."""

    __slots__ = ("last",)

    def __init__(self, last: int) -> None:
        self.last = last


class SqliteTx:
    """The SQLite implementation of `Tx`. Its coroutines never suspend, so that `run_sync` can run them."""

    __slots__ = (
        "_counter",
        "_execute",
        "_rev",
        "_sql",
        "due",
        "events",
        "ids",
        "interrupted",
        "now",
        "posts",
        "woken",
    )

    def __init__(
        self,
        connection: Connection,
        sql: dict[str, str],
        *,
        now: int,
        ids: Ids,
        counter: RevisionCounter | None = None,
    ) -> None:
        self._execute = connection.execute
        self._sql = sql
        self._counter = counter
        self._rev = 0
        self.now = now
        self.ids = ids
        self.events: list[Event] = []
        self.woken: list[SessionId] = []
        self.interrupted: list[SessionId] = []
        self.due: list[int] = []
        self.posts: list[int] = []

    async def one(self, statement: str, *params: object) -> Row | None:
        try:
            row: Row | None = self._execute(self._sql[statement], params).fetchone()
        except (UnicodeEncodeError, OverflowError) as error:
            raise _invalid_value(error) from error
        return row

    async def all(self, statement: str, *params: object) -> list[Row]:
        try:
            return self._execute(self._sql[statement], params).fetchall()
        except (UnicodeEncodeError, OverflowError) as error:
            raise _invalid_value(error) from error

    async def run(self, statement: str, *params: object) -> int:
        """Run a statement; returns how many rows it changed. RETURNING would double the cost."""
        try:
            return self._execute(self._sql[statement], params).rowcount
        except (UnicodeEncodeError, OverflowError) as error:
            raise _invalid_value(error) from error

    async def rev(self) -> int:
        if not self._rev:
            assert self._counter is not None, "a reading transaction has no revision"
            self._counter.last += 1
            self._rev = self._counter.last
        return self._rev

    @property
    def wrote(self) -> bool:
        return self._rev > 0

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def wake(self, session_id: SessionId) -> None:
        self.woken.append(session_id)

    def interrupt(self, session_id: SessionId) -> None:
        self.interrupted.append(session_id)

    def schedule(self, due: int) -> None:
        self.due.append(due)

    def schedule_webhook(self, due: int) -> None:
        self.posts.append(due)


def _invalid_value(error: Exception) -> InvalidInput:
    return InvalidInput(f"the store cannot take this value: {error}")


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends. Raises `RuntimeError` if it does."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise RuntimeError("a store verb waited for something; verbs only use their transaction")
