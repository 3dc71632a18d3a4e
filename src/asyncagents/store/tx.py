"""The protocols between verbs and databases: a transaction, a commit report, a database."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from asyncagents.domain.event import Event
from asyncagents.domain.id import Ids, SessionId

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


class Tx(Protocol):
    """One transaction. A verb may be run again from its start, on a new one, if this one was rolled back."""

    @property
    def now(self) -> int: ...
    @property
    def ids(self) -> Ids: ...

    async def one(self, statement: str, *params: object) -> Row | None: ...
    async def all(self, statement: str, *params: object) -> list[Row]: ...
    async def run(self, statement: str, *params: object) -> int:
        """Run a statement; returns how many rows it changed."""
        ...

    async def rev(self) -> int:
        """Return the revision that all rows written by this transaction carry; every write must take it."""
        ...

    def emit(self, event: Event) -> None:
        """Publish an event after the commit; never without one."""
        ...

    def wake(self, session_id: SessionId) -> None:
        """Wake a session after the commit; only a hint, the row is the truth."""
        ...

    def interrupt(self, session_id: SessionId) -> None:
        """Interrupt the run of this session after the commit; the run then reads the rows."""
        ...

    def schedule(self, due: int) -> None:
        """Schedule a sweep: a row becomes due at this time."""
        ...

    def schedule_webhook(self, due: int) -> None:
        """Schedule the delivery loop: a webhook becomes due at this time."""
        ...


Verb: TypeAlias = Callable[[Tx], Awaitable[T]]


class Commit(Struct, frozen=True):
    """Report of a commit, sent once it is durable."""

    events: list[Event]
    woken: list[SessionId]
    interrupted: list[SessionId]
    due: list[int]
    posts: list[int] = []
    """Times at which webhooks become due."""
    upto: int = 0
    """With this report all commits up to this revision have been reported; 0: unchanged."""
    at: int = 0
    """The newest revision in the report; 0: `upto`."""


class Database(Protocol):
    """Runs verbs. `write` returns only when the commit is durable; `read` sees one consistent state.

    A `inline` verb touches few rows: it may run on the event loop instead of in a thread.
    """

    async def write(self, verb: Verb[T], *, inline: bool = False) -> T: ...
    async def read(self, verb: Verb[T], *, inline: bool = False) -> T: ...
    def listen(self, listener: Callable[[Commit], None]) -> None:
        """Call `listener` for every commit, also those of other processes."""
        ...
