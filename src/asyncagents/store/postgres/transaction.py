"""The PostgreSQL transaction that verbs use. One that writes locks the trees of sessions it works on."""

from contextlib import AsyncExitStack
from typing import Self

from asyncagents.domain.event import Event
from asyncagents.domain.id import Ids, SessionId
from asyncagents.store.postgres.pool import Connection, Pool
from asyncagents.store.postgres.statement import Statement
from asyncagents.store.postgres.tree_lock import TreeLocks, lock_key
from asyncagents.store.tx import Row

_LOOKUP = {
    "session": "SELECT root_id FROM session WHERE id = $1",
    "call": "SELECT root_id FROM session WHERE id = (SELECT session_id FROM call WHERE id = $1)",
    "message": "SELECT root_id FROM session WHERE id = (SELECT session_id FROM message WHERE id = $1)",
    "part": "SELECT root_id FROM session WHERE id = (SELECT session_id FROM part WHERE id = $1)",
    "ask": "SELECT root_id FROM session WHERE id = COALESCE((SELECT session_id FROM call WHERE ask_id = $1),"
    " (SELECT session_id FROM answered WHERE ask_id = $1))",
}
_MARK = (
    "INSERT INTO mark (slot, token, xid) VALUES ($1, $2, pg_current_xact_id()::text::bigint) "
    "ON CONFLICT (slot) DO UPDATE SET token = excluded.token, xid = excluded.xid, day = excluded.day "
    "RETURNING xid"
)


class PostgresTx:
    """Begins with its first statement. Before a statement runs, a writing one locks the tree it is about.

    What is read before its tree is locked may be outdated: so verbs begin by reading their session.
    """

    __slots__ = (
        "_base",
        "_ends",
        "_held",
        "_pool",
        "_sql",
        "_trees",
        "_until",
        "_writes",
        "changes",
        "connection",
        "due",
        "events",
        "ids",
        "interrupted",
        "mark",
        "now",
        "posts",
        "woken",
        "xid",
    )

    def __init__(  # noqa: PLR0913  all that a transaction takes
        self,
        pool: Pool,
        sql: dict[str, Statement],
        *,
        now: int,
        ids: Ids,
        trees: TreeLocks,
        base: int | None,
        until: float,
    ) -> None:
        """`base`: what revisions are counted from; None: a reading transaction."""
        self._pool = pool
        self._sql = sql
        self._trees = trees
        self._base = base or 0
        self._writes = base is not None
        self._until = until
        self._held: set[str] = set()
        self._ends = AsyncExitStack()
        self.connection: Connection | None = None
        """None: the transaction has not begun."""
        self.changes = False
        """Whether rows may have changed."""
        self.xid = 0
        """0: nothing was written."""
        self.mark = (0, 0)
        """In the database if and only if this transaction was committed."""
        self.now = now
        self.ids = ids
        self.events: list[Event] = []
        self.woken: list[SessionId] = []
        self.interrupted: list[SessionId] = []
        self.due: list[int] = []
        self.posts: list[int] = []

    async def __aenter__(self) -> Self:
        await self._ends.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._ends.__aexit__(*error)  # type: ignore[arg-type]

    async def one(self, statement: str, *params: object) -> Row | None:
        connection, text, given = await self._prepare(statement, params)
        row = await connection.fetchrow(text, *given)
        return None if row is None else tuple(row)

    async def all(self, statement: str, *params: object) -> list[Row]:
        connection, text, given = await self._prepare(statement, params)
        return [tuple(row) for row in await connection.fetch(text, *given)]

    async def run(self, statement: str, *params: object) -> int:
        connection, text, given = await self._prepare(statement, params)
        status = await connection.execute(text, *given)
        return int(status.rpartition(" ")[2])

    async def _prepare(
        self, name: str, params: tuple[object, ...]
    ) -> tuple[Connection, str, tuple[object, ...]]:
        statement = self._sql[name]
        if statement.is_read:  # PostgreSQL stores no zero byte: a lookup finds nothing
            params = tuple(each.replace("\0", "\ufffd") if isinstance(each, str) else each for each in params)
        if self._writes:
            self.changes = self.changes or not statement.is_read
            if statement.kind is not None:
                await self._lock_tree_of(statement.kind, str(params[statement.place]))
            if statement.lock is not None:
                await self._lock(statement.lock)
            if name == "insert_session":
                self._trees.remember_root(str(params[0]), str(params[2]))
        return self.connection or await self._open(), statement.text, params

    async def _open(self, *, lock: str = "") -> Connection:
        taken = self._pool.take(until=self._until)
        connection: Connection = await self._ends.enter_async_context(taken)
        self.connection = connection
        if self._writes:
            await connection.execute(f"BEGIN; {lock}")
        else:
            await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return connection

    async def _lock_tree_of(self, kind: str, name: str) -> None:
        """Lock the tree of a session, or of a call, message or part if no tree is locked yet."""
        if kind != "session" and self._held:
            return
        root = self._trees.root_of(name)
        if root is None:
            root = await self._find_root(kind, name)
            if root is not None and kind == "session":
                self._trees.remember_root(name, root)
        await self._lock(root or name)

    async def _find_root(self, kind: str, name: str) -> str | None:
        if self.connection is not None:
            return await self.connection.fetchval(_LOOKUP[kind], name)  # type: ignore[no-any-return]
        async with self._pool.take(until=self._until) as connection:
            return await connection.fetchval(_LOOKUP[kind], name)  # type: ignore[no-any-return]

    async def _lock(self, name: str) -> None:
        """Take a lock; only the first waits without a connection, so that no lock holder waits in a queue."""
        if name in self._held:
            return
        self._held.add(name)
        lock = f"SELECT pg_advisory_xact_lock({lock_key(name)})"
        if self.connection is not None:
            await self.connection.execute(lock)
        else:
            await self._ends.enter_async_context(self._trees.lock(name))
            await self._open(lock=lock)

    async def rev(self) -> int:
        """Take a revision: a later transaction on the same tree gets a higher one."""
        assert self._writes, "a reading transaction has no revision"
        if not self.xid:
            connection = self.connection or await self._open()
            self.mark = self._pool.next_mark(connection)
            self.xid = await connection.fetchval(_MARK, *self.mark)
        return self.known_rev

    @property
    def known_rev(self) -> int:
        """The revision, or 0 before one was taken."""
        return self._base + self.xid if self.xid else 0

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
