"""A server that crashes gives numbers of transactions anew, if nothing of them had reached the disk."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime

import asyncpg
import pytest

from asyncagents.domain.event import MessageUpdated
from asyncagents.domain.id import Ids
from asyncagents.store.postgres.database import _IS_THERE, POOL_SIZE, PostgresDatabase, open_postgres
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.postgres.database import Server, a_database, open_server
from tests.support.store.lab import Lab
from tests.support.wait import PATIENCE, wait_until

TRIES = 20
"""The server may have been writing just then; if it was every time, nothing was seen."""
MARK = "INSERT INTO mark VALUES (77, 1, pg_current_xact_id()::text::bigint) RETURNING xid"
LOOKED = "SELECT max(query_start) FROM pg_stat_activity WHERE query = $1"
NUMBER = "SELECT pg_current_xact_id()::text::bigint"


@pytest.fixture
def server() -> Iterator[Server]:
    with open_server(durable=True) as server:
        yield server


@asynccontextmanager
async def opened(
    server: Server, *, size: int = POOL_SIZE
) -> AsyncIterator[tuple[str, PostgresDatabase, Lab]]:
    """`size`: how many connections there are."""
    clock, rng = FakeClock(), SeededRng(1)
    ids = Ids(clock, rng)
    async with (
        a_database(server) as dsn,
        open_postgres(dsn, clock=clock, rng=rng, ids=ids, size=size) as database,
    ):
        yield dsn, database, Lab(database, clock, ids)


async def burn(dsn: str, upto: int) -> int:
    """Commit transactions until that number is used up; the first number that was given."""
    connection = await asyncpg.connect(dsn)
    try:
        number = first = await connection.fetchval(NUMBER)
        while number < upto:
            number = await connection.fetchval(NUMBER)
        return int(first)
    finally:
        await connection.close()


class Crash:
    """The server crashes right before a COMMIT, and somebody else uses numbers afterwards."""

    def __init__(self, server: Server, dsn: str, database: PostgresDatabase) -> None:
        self._server = server
        self._dsn = dsn
        self.number = self.first = 0
        database.before_commit = self

    async def __call__(self, connection: asyncpg.Connection, sessions: object) -> frozenset[str]:
        if not self.number:
            self.number = await connection.fetchval(NUMBER)
            await asyncio.to_thread(self._server.restart)
            self.first = await burn(self._dsn, self.number)
        return frozenset()

    @property
    def gave_it_anew(self) -> bool:
        return 0 < self.first <= self.number


@pytest.mark.spec("X-10", "X-11")
async def test_a_write_lost_in_a_crash_is_repeated_if_its_transaction_id_is_reused(
    server: Server,
) -> None:
    async with opened(server) as (dsn, database, lab):
        for _ in range(TRIES):
            session_id = await lab.session()
            crash = Crash(server, dsn, database)
            admitted = await lab.store.admit(lab.input(session_id))
            assert (await lab.store.input(admitted.message_id)).session_id == session_id
            if crash.gave_it_anew:
                return
    pytest.fail("no number was given anew")


@pytest.mark.spec("X-10", "X-11")
async def test_the_check_of_a_commit_waits_while_the_commit_is_under_way(
    server: Server,
) -> None:
    async with opened(server) as (dsn, database, _), asyncio.timeout(PATIENCE):
        other = await asyncpg.connect(dsn)
        await other.execute("BEGIN")
        number = await other.fetchval(MARK)
        tx = database._tx(0.0, base=database.base)
        tx.xid, tx.mark = number, (77, 1)
        until = asyncio.get_running_loop().time() + PATIENCE
        looking = asyncio.create_task(database._is_committed(tx, OSError("cut"), until))
        witness, looks = await asyncpg.connect(dsn), set[datetime | None]()

        async def looked_again() -> bool:
            looks.add(await witness.fetchval(LOOKED, _IS_THERE))
            return len(looks - {None}) >= 3

        await wait_until(looked_again)
        assert not looking.done(), "it may still be committed"
        await other.execute("COMMIT")
        assert await looking
        await other.close()
        await witness.close()


@pytest.mark.spec("X-10", "X-11")
async def test_writes_on_all_connections_survive_a_crash_during_their_commits(
    server: Server,
) -> None:
    met, crashed = asyncio.Barrier(2), asyncio.Event()

    async def crash(connection: asyncpg.Connection, sessions: object) -> frozenset[str]:
        if not crashed.is_set() and await met.wait() == 0:
            await asyncio.to_thread(server.restart)
            crashed.set()
        await crashed.wait()
        return frozenset()

    async with opened(server, size=2) as (_, database, lab), asyncio.timeout(PATIENCE):
        sessions = [await lab.session(), await lab.session()]
        database.before_commit = crash
        done = await asyncio.gather(*(lab.store.admit(lab.input(each)) for each in sessions))
        found = [(await lab.store.input(each.message_id)).session_id for each in done]
        assert found == sessions


@pytest.mark.spec("X-10")
async def test_a_reader_gets_rows_whose_transaction_id_was_used_before_a_crash(server: Server) -> None:
    async with opened(server) as (dsn, _, lab):
        for _ in range(TRIES):
            session_id = await lab.session()
            number = await rolled_back(dsn)
            cursor = await lab.store.cursor()
            await asyncio.to_thread(server.restart)
            admitted = await lab.store.admit(lab.input(session_id))
            given = await written(dsn)
            events = (await lab.store.feed(cursor)).events
            told = [event.info.id for event in events if isinstance(event, MessageUpdated)]
            assert told == [admitted.message_id]
            if given <= number:
                return
    pytest.fail("no number was given anew")


async def rolled_back(dsn: str, times: int = 50) -> int:
    """The last number that was used for nothing."""
    connection = await asyncpg.connect(dsn)
    try:
        numbers = []
        for _ in range(times):
            await connection.execute("BEGIN")
            numbers.append(await connection.fetchval(NUMBER))
            await connection.execute("ROLLBACK")
        return int(numbers[-1])
    finally:
        await connection.close()


async def written(dsn: str) -> int:
    """The number of the last transaction that wrote."""
    connection = await asyncpg.connect(dsn)
    try:
        return int(await connection.fetchval("SELECT MAX(xid) FROM mark"))
    finally:
        await connection.close()
