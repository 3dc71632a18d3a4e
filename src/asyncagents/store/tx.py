"""What a store verb sees of a database: named statements, a clock, a revision, and what to report."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from asyncagents.domain.event import Event
from asyncagents.domain.id import Ids, SessionId

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]


class Tx(Protocol):
    """One transaction. A verb may be run again from its start, on a new one, if nothing came of this one."""

    @property
    def now(self) -> int: ...
    @property
    def ids(self) -> Ids: ...

    async def one(self, statement: str, *params: object) -> Row | None: ...
    async def all(self, statement: str, *params: object) -> list[Row]: ...
    async def run(self, statement: str, *params: object) -> int:
        """How many rows it changed."""
        ...

    async def rev(self) -> int:
        """The revision all rows written by this transaction carry; whoever writes takes it."""
        ...

    def emit(self, event: Event) -> None:
        """Publish after the commit, if it comes."""
        ...

    def wake(self, session_id: SessionId) -> None:
        """Tell the dispatcher after the commit; only a hint, the row is the truth."""
        ...

    def interrupt(self, session_id: SessionId) -> None:
        """Tell the run of this session to stop what it is doing; it then reads the rows."""
        ...

    def expect(self, due: int) -> None:
        """Something becomes due then."""
        ...

    def expect_post(self, due: int) -> None:
        """A webhook is to be posted then."""
        ...


Verb: TypeAlias = Callable[[Tx], Awaitable[T]]


class Commit(Struct, frozen=True):
    """What became true, reported once it is durable."""

    events: list[Event]
    woken: list[SessionId]
    interrupted: list[SessionId]
    due: list[int]
    posts: list[int] = []
    """When webhooks are to be posted."""
    upto: int = 0
    """With this report, all that was committed up to this revision has been reported; 0: no news of that."""
    at: int = 0
    """Nothing in it is of a later revision; 0: than `upto`."""


class Database(Protocol):
    """Runs verbs. `write` returns only when the commit is durable; `read` sees one consistent state.

    A verb is `quick` that touches few rows: it may be run where it is asked for, instead of in a thread.
    """

    async def write(self, verb: Verb[T], *, quick: bool = False) -> T: ...
    async def read(self, verb: Verb[T], *, quick: bool = False) -> T: ...
    def listen(self, listener: Callable[[Commit], None]) -> None:
        """Hear of every commit, also of those that other processes made."""
        ...
