"""The feed of PostgreSQL: commits come in any order, from many processes, and no reader misses one."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from asyncagents.domain.conversation.session import SessionChanges
from asyncagents.domain.id import Ids
from asyncagents.store.postgres.database import PostgresDatabase, open_postgres
from asyncagents.store.tx import Tx
from asyncagents.store.verb.admit import admit_input
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.postgres.database import Server, a_database
from tests.support.postgres.feed_race import catch_up, connected, race
from tests.support.postgres.feed_reader import Follower, Listener, Naive, what_is_there
from tests.support.store.lab import Lab
from tests.support.wait import wait_until

WRITES = 25
AS_IF_SETTLED = """
    CREATE OR REPLACE FUNCTION settled() RETURNS BIGINT LANGUAGE sql STABLE AS
    $$ SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint $$
"""
"""All that has a number, as if none of it were under way."""
WAITING = "SELECT COUNT(*) FROM pg_locks WHERE NOT granted AND relation = 'tombstone'::regclass"
"""Who is in the middle of reading."""


@pytest.fixture
async def dsn(postgres_server: Server) -> AsyncIterator[str]:
    async with a_database(postgres_server) as address:
        yield address


@asynccontextmanager
async def _lab(dsn: str, seed: int) -> AsyncIterator[tuple[PostgresDatabase, Lab]]:
    clock = FakeClock()
    ids = Ids(clock, SeededRng(seed))
    async with open_postgres(dsn, clock=clock, rng=SeededRng(seed), ids=ids, size=3) as database:
        yield database, Lab(database, clock, ids)


@pytest.mark.spec("X-10", "C-06")
async def test_no_reader_misses_a_row_of_sixteen_writers_in_five_processes(
    dsn: str, record_property: Callable[[str, object], None]
) -> None:
    done = await race(dsn, writes=WRITES)
    record_property("rows that sixteen writers wrote", done.sessions + done.messages + done.deleted)
    assert done.writers == 16
    assert not done.lost
    assert {name for name, what in done.missed.items() if what} == set(), done.missed
    assert {name for name, what in done.went_back.items() if what} == set(), done.went_back
    # What is told where others write may come in the wrong order: see the last test.
    assert {name for name, what in done.disordered.items() if what} == set(), done.disordered
    assert {name for name, what in done.outdated.items() if what} == set(), done.outdated
    assert done.naive > 0, "nothing was committed late: it shows nothing that nobody missed it"
    assert done.messages > 5 * WRITES
    assert min(done.deleted, done.refused) > 5


async def _who_misses_what_is_late(dsn: str) -> set[str]:
    """One message takes its revision first and is committed last; in between there is another, and a look."""
    async with (
        _lab(dsn, 1) as (first, lab),
        _lab(dsn, 2) as (_, other),
        _lab(dsn, 3) as (reading, _),
        connected(dsn) as connection,
    ):
        slow, quick = await lab.session(), await other.session()
        follower, listener = Follower([reading], random.Random(1)), Listener(reading)
        naive = Naive(connection)
        new, written, go_on = lab.input(slow), asyncio.Event(), asyncio.Event()

        async def late(tx: Tx) -> None:
            await admit_input(tx, new)
            written.set()
            await go_on.wait()

        async def look() -> None:
            for reader in (follower, listener, naive):
                await reader.look()

        await look()
        async with asyncio.TaskGroup() as group:
            group.create_task(first.write(late))
            await written.wait()
            await other.prompt(quick)
            await look()
            go_on.set()
        await look()
    there = await what_is_there(dsn)
    assert not follower.went_back + listener.went_back
    row = f"messages {new.message.id}"
    missed = {
        "the naive one": naive.missed(there),
        "who follows": follower.missed(there),
        "who listens": listener.missed(there),
    }
    return {name for name, rows in missed.items() if row in rows}


@pytest.mark.spec("X-10", "C-06")
async def test_only_a_reader_of_the_highest_revision_misses_a_late_commit(
    dsn: str,
) -> None:
    assert await _who_misses_what_is_late(dsn) == {"the naive one"}


@pytest.mark.spec("X-10")
async def test_every_reader_misses_a_late_commit_if_open_transactions_are_shown(dsn: str) -> None:
    """The control: with it all miss the same row."""
    async with connected(dsn) as connection:
        await connection.execute(AS_IF_SETTLED)
    assert await _who_misses_what_is_late(dsn) == {"the naive one", "who follows", "who listens"}


@pytest.mark.spec("X-10", "C-06")
async def test_a_remote_change_is_not_published_after_a_later_local_change(dsn: str) -> None:
    async with _lab(dsn, 1) as (_, other), _lab(dsn, 2) as (here, lab), connected(dsn) as holder:
        listener = Listener(here)
        await listener.look()
        session_id = await other.session()
        await listener.look()
        await other.store.conversation.update_session(session_id, SessionChanges(title="theirs"))
        await holder.execute("BEGIN; LOCK TABLE tombstone IN ACCESS EXCLUSIVE MODE")
        async with asyncio.TaskGroup() as group:
            group.create_task(listener.look())
            await wait_until(lambda: holder.fetchval(WAITING))  # the database tells nobody
            await lab.store.conversation.update_session(session_id, SessionChanges(title="ours"))
            await holder.execute("ROLLBACK")
        there = await what_is_there(dsn)
        await catch_up(listener, there.newest)
    assert there.rows["sessions"][session_id]["title"] == "ours"
    assert not listener.missed(there) + listener.outdated(there)
