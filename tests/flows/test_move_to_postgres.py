"""A data directory moves into PostgreSQL: all of it reads the same there, and its work goes on."""

import asyncio
import os
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.id import Ids, OwnerId
from asyncagents.engine.webhook.delivery import SignedRequest
from asyncagents.errors import Conflict, InvalidInput, SchemaMismatch, StoreError
from asyncagents.server.discovery import LOCK_FILE
from asyncagents.store.postgres.database import open_postgres
from asyncagents.store.postgres.move_from_sqlite import MoveResult, move_store
from asyncagents.store.sqlite.connection import connect
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.migrate import load_scripts, migrate
from asyncagents.store.sqlite.owners import FlockOwners, hold_lock
from asyncagents.store.store import Store
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.support.delegation import is_idle, open_delegation_stage
from tests.support.postgres.database import Server, a_database, database
from tests.support.runtime import wait_until_all_rest
from tests.support.store.lab import Lab, ask_id
from tests.support.store.sample import (
    DEAD,
    FILE,
    SAMPLE_SCRIPT,
    Rich,
    fill_store,
    is_empty,
    query_postgres,
    read_everything,
    reopen_store,
    rows_here,
    rows_there,
)
from tests.support.wait import PATIENCE
from tests.support.webhook.receiver import wait_until_state

SESSION = (
    "INSERT INTO session (id, root_id, depth, pool, state, wake_seq, fence, turn, turn_rev, in_turn, "
    "cancel_rev, blocked_turn, claims, positions, status, info, version, project_id, rev) "
    "VALUES ('ses_1', 'ses_1', 0, 'local', 'idle', 0, 0, 0, 0, 0, 0, 0, 0, 0, "
    "'{\"type\":\"idle\"}', ?, 1, 'p', 7)"
)


@pytest.fixture
async def dsn(postgres_server: Server) -> AsyncIterator[str]:
    async with a_database(postgres_server) as address:
        yield address


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rich]:
    data = tmp_path_factory.mktemp("rich")
    return data, asyncio.run(fill_store(data))


@pytest.fixture
def rich(tmp_path: Path, made: tuple[Path, Rich]) -> Rich:
    """Its store is a copy, in the directory of the test."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return made[1]


async def moved(data: Path, dsn: str, *, told: Callable[[str, int], None] = lambda *_: None) -> MoveResult:
    return await move_store(data / FILE, dsn, rng=SystemRng(), told=told)


async def test_the_moved_store_reads_the_same_in_postgres(tmp_path: Path, dsn: str, rich: Rich) -> None:
    clock, heard = FakeClock(SystemClock().now()), dict[str, int]()
    async with open_sqlite(tmp_path / FILE, clock=clock, rng=SeededRng(1)) as file:
        before = await read_everything(file)
    done = await moved(tmp_path, dsn, told=heard.__setitem__)
    async with open_postgres(dsn, clock=clock, rng=SeededRng(1)) as there:
        after = await read_everything(there)

    assert after == before
    assert len(before["asks"]) == len(before["live"]) == len(before["deliveries"]) == 1
    assert [len(before[name]) for name in ("waiting", "approvals", "keys")] == [2, 1, 1]
    here = rows_here(tmp_path)
    assert await rows_there(tmp_path, dsn) == here
    assert done.rows == {table: len(rows) for table, rows in here.items()}
    assert heard == {table: count for table, count in done.rows.items() if count}
    assert done.replaced == 0
    assert {table for table, rows in here.items() if not rows} <= {"answered", "call_secret", "arrival"}


async def test_work_goes_on_in_postgres_after_the_move(tmp_path: Path, dsn: str, rich: Rich) -> None:
    await moved(tmp_path, dsn)
    sessions, letters = rich.sessions, list[SignedRequest]()
    said = {"hello": "Hi.", "ship": "Shipped.", "careful": "With care.", "cut off": "After all."}
    async with reopen_store(tmp_path, dsn, letters) as runtime, asyncio.timeout(PATIENCE):
        again = await runtime.prompt(sessions["hello"], "hello", key="old key")
        waiting = {each.session_id: each.id for each in await runtime.async_tools.waiting_calls()}
        for call_id in waiting.values():
            await runtime.complete(call_id, "v2")
        (ask,) = await runtime.asks()
        await runtime.answer(ask_id(ask.call), "once")
        await wait_until_state(runtime, "delivered", many=3)
        await wait_until_all_rest(runtime)
        last = {name: await runtime.messages(sessions[name]) for name in said}
        tasks = {task.description: task.status for task in await runtime.tasks.list()}

    assert again == rich.first
    assert len({request.headers["webhook-id"] for request in letters}) == len(letters) == 3
    assert {name: entries[-1].text for name, entries in last.items()} == said
    assert tasks == {"Find it": "completed", "Await it": "completed"}


async def test_a_step_that_was_cut_off_is_closed_when_its_session_is_claimed(
    tmp_path: Path, dsn: str, rich: Rich
) -> None:
    """Its owner is nobody whom the database knows."""
    await moved(tmp_path, dsn)
    session_id = rich.sessions["cut off"]
    async with open_postgres(dsn, clock=SystemClock(), rng=SystemRng()) as there:
        store = Store(there)
        (left,) = [each for each in await store.active_sessions("local") if each.session_id == session_id]
        assert left.state == "running"
        assert left.owner == DEAD
        taken = await store.claim(session_id, OwnerId("another"), dead=DEAD)
        (_, cut) = await store.messages(session_id)
        requests = await query_postgres(dsn, f"SELECT state FROM request WHERE session_id = '{session_id}'")  # noqa: S608

    assert taken is not None
    assert taken.is_unanswered
    assert "process stopped" in str(cut.info)
    assert [row[0] for row in requests] == ["lost"]


async def test_revisions_continue_above_the_newest_of_the_file(tmp_path: Path, dsn: str, rich: Rich) -> None:
    """Also of what has left no row."""
    with closing(sqlite3.connect(tmp_path / FILE)) as file, file:
        file.execute("UPDATE revision SET rev = rev + 1000")
        (newest,) = file.execute("SELECT rev FROM revision").fetchone()
    await moved(tmp_path, dsn)
    (row,) = await query_postgres(dsn, "SELECT nextval(pg_get_serial_sequence('secret_key', 'id'))")
    assert row[0] == 2
    async with open_postgres(dsn, clock=SystemClock(), rng=SystemRng()) as there:
        store = Store(there)
        old = await store.feed(rich.cursor)
        nothing = await store.feed(old.cursor)
        before = await store.control(rich.sessions["ship"])
        assert before.in_turn
        assert not before.is_cancelled()
        await store.cancel(rich.sessions["ship"])
        control = await store.control(rich.sessions["ship"])
        news = await store.feed(old.cursor)
        await store.pending.add_key(b"k" * 32)
        keys = await store.pending.secret_keys()

    assert old.reset is True
    assert old.events == ()
    assert nothing.reset is False
    assert nothing.events == ()
    assert control.cancel_rev > newest > control.turn_rev
    assert control.is_cancelled()
    assert not news.reset
    assert {event.session_id for event in news.events} == {rich.sessions["ship"]}
    assert len(keys) == 2
    assert keys[0] == b"k" * 32


async def test_a_second_move_is_refused_and_changes_nothing(tmp_path: Path, dsn: str, rich: Rich) -> None:
    await moved(tmp_path, dsn)
    with pytest.raises(Conflict, match="moved before"):
        await moved(tmp_path, dsn)
    assert await rows_there(tmp_path, dsn) == rows_here(tmp_path)


async def test_sessions_get_the_pool_that_is_given(tmp_path: Path, dsn: str, rich: Rich) -> None:
    await move_store(tmp_path / FILE, dsn, rng=SystemRng(), pool="gpu", told=lambda *_: None)
    assert [tuple(row) for row in await query_postgres(dsn, "SELECT DISTINCT pool FROM session")] == [
        ("gpu",)
    ]


async def test_a_directory_in_use_is_not_moved(tmp_path: Path, dsn: str) -> None:
    async with open_delegation_stage(tmp_path, SAMPLE_SCRIPT) as at:
        await at.prompt("hello")
        with pytest.raises(Conflict, match="Stop it"):
            await moved(tmp_path, dsn)
        assert await is_idle(at.runtime, at.session_id)
    lock = hold_lock(tmp_path / LOCK_FILE)
    assert lock is not None
    with pytest.raises(Conflict, match="Stop it"):
        await moved(tmp_path, dsn)
    os.close(lock)
    assert await is_empty(dsn)
    assert (await moved(tmp_path, dsn)).rows["session"] == 1


async def test_a_process_that_opens_the_directory_during_the_move_stops_it(
    tmp_path: Path, dsn: str, rich: Rich
) -> None:
    came: list[FlockOwners] = []
    with pytest.raises(Conflict, match="Stop it"):
        await moved(
            tmp_path,
            dsn,
            told=lambda table, _: came.append(FlockOwners(tmp_path / "owners", f"late-{table}")),
        )
    assert await is_empty(dsn)
    for owner in came:
        owner.close()
    await moved(tmp_path, dsn)


async def test_a_move_into_a_database_that_is_open_is_refused(tmp_path: Path, dsn: str, rich: Rich) -> None:
    """He would go on to count revisions from where they stood."""
    async with open_postgres(dsn, clock=SystemClock(), rng=SystemRng()) as there:
        await Store(there).cursor()
        with pytest.raises(Conflict, match="Stop them"):
            await moved(tmp_path, dsn)
    assert (await moved(tmp_path, dsn)).rows["session"] > len(rich.sessions)


async def test_an_open_during_the_move_waits_and_finds_the_moved_rows(
    tmp_path: Path, dsn: str, rich: Rich
) -> None:
    begun = asyncio.Event()

    async def opened() -> tuple[int, str]:
        await begun.wait()
        async with open_postgres(dsn, clock=SystemClock(), rng=SystemRng()) as there:
            await Store(there).cancel(rich.sessions["ship"])
            return len(await Store(there).roots()), there.identity.epoch

    async with asyncio.TaskGroup() as group:
        opening = group.create_task(opened())
        group.create_task(moved(tmp_path, dsn, told=lambda *_: begun.set()))
    (row,) = await query_postgres(dsn, "SELECT epoch, horizon, MAX(rev) FROM revision, session GROUP BY 1, 2")
    assert opening.result() == (len(rich.sessions) + 1, row[0])
    assert row[2] > row[1]


async def test_leftovers_of_deleted_sessions_in_the_database_are_replaced(
    tmp_path: Path, dsn: str, rich: Rich
) -> None:
    clock, rng = SystemClock(), SystemRng()
    ids = Ids(clock, rng)
    async with open_postgres(dsn, clock=clock, rng=rng, ids=ids) as there:
        lab = Lab(there, FakeClock(), ids)
        await lab.store.pending.ensure_key(b"a" * 32)
        await lab.store.delete_session(await lab.session())
    assert not await is_empty(dsn)
    await moved(tmp_path, dsn)
    assert await rows_there(tmp_path, dsn) == rows_here(tmp_path)


async def test_a_failure_during_the_move_leaves_the_database_empty(
    tmp_path: Path, dsn: str, rich: Rich
) -> None:
    async def kill() -> None:
        await query_postgres(
            dsn,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )

    def told(table: str, rows: int) -> None:
        if table == "call":
            killing = Thread(target=lambda: asyncio.run(kill()))
            killing.start()
            killing.join()

    with pytest.raises(StoreError, match="nothing was moved"):
        await moved(tmp_path, dsn, told=told)
    assert await is_empty(dsn)
    await moved(tmp_path, dsn)
    assert await rows_there(tmp_path, dsn) == rows_here(tmp_path)


async def test_a_table_or_column_that_only_one_side_knows_is_refused(
    tmp_path: Path, dsn: str, rich: Rich
) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as file:
        file.execute("CREATE TABLE later (id TEXT)")
        with pytest.raises(SchemaMismatch, match="later"):
            await moved(tmp_path, dsn)
        file.execute("DROP TABLE later")
        file.execute("ALTER TABLE todo ADD COLUMN colour TEXT")
        with pytest.raises(SchemaMismatch, match="colour of todo"):
            await moved(tmp_path, dsn)
    assert await is_empty(dsn)


async def test_characters_that_postgres_cannot_store_are_replaced_and_counted(
    tmp_path: Path, dsn: str, rich: Rich
) -> None:
    session_id, folded = rich.sessions["hello"], "'a' || char(0) || 'b' || char(0)"
    with closing(sqlite3.connect(tmp_path / FILE)) as file, file:
        file.execute(f"UPDATE session SET folded = {folded}, directory = 'ü' WHERE id = ?", (session_id,))  # noqa: S608
        file.execute("UPDATE input SET source = CAST(x'61FF' AS TEXT) WHERE session_id = ?", (session_id,))
    assert (await moved(tmp_path, dsn)).replaced == 3
    (row,) = await query_postgres(
        dsn,
        "SELECT session.folded, directory, source FROM session JOIN input ON input.session_id = session.id "
        "WHERE directory = 'ü'",
    )
    assert tuple(row) == ("a\ufffdb\ufffd", "ü", "a\ufffd")


async def test_an_older_file_is_brought_to_our_schema_first(tmp_path: Path, dsn: str) -> None:
    path = tmp_path / FILE
    with closing(connect(path)) as file:
        migrate(file, path, epoch="e", scripts=load_scripts()[:8])
        file.execute(SESSION, (b'{"directory":"/work","title":"Old"}',))
    assert (await moved(tmp_path, dsn)).rows["session"] == 1
    (row,) = await query_postgres(dsn, "SELECT directory, folded, rev FROM session")
    assert tuple(row) == ("/work", "old", 7)
    assert [backup.name for backup in (tmp_path / "backups").iterdir()] == ["asyncagents-schema-8.db"]


async def test_a_database_without_our_schema_gets_it_and_then_another_epoch(
    tmp_path: Path, postgres_server: Server, rich: Rich
) -> None:
    """Who opened it in between is to notice."""
    rng = SeededRng(1)
    drawn = {f"{rng.below(2**48):012x}" for _ in range(2)}
    async with database(postgres_server) as dsn:
        done = await move_store(tmp_path / FILE, dsn, rng=SeededRng(1), told=lambda *_: None)
        (row,) = await query_postgres(dsn, "SELECT epoch FROM revision")
    assert done.rows["session"] > len(rich.sessions)
    assert row[0] not in drawn


async def test_a_move_of_a_directory_without_a_store_is_refused(tmp_path: Path, dsn: str) -> None:
    with pytest.raises(InvalidInput, match="no store"):
        await moved(tmp_path, dsn)
    assert not (tmp_path / FILE).exists()


async def test_twenty_thousand_messages_are_moved(
    tmp_path: Path, dsn: str, rich: Rich, record_property: Callable[[str, object], None]
) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as file, file:
        file.execute("CREATE TEMP TABLE n (i INTEGER)")
        file.executemany("INSERT INTO n VALUES (?)", [(i,) for i in range(20_000)])
        file.execute(
            "INSERT INTO message SELECT id || i, session_id, NULL, NULL, 1, info, version, rev + i, NULL "
            "FROM n, (SELECT * FROM message LIMIT 1)"
        )
        file.execute(
            "INSERT INTO part SELECT id || i, message_id || i, session_id, randomblob(999), version, rev + i "
            "FROM n, (SELECT * FROM part LIMIT 1)"
        )
    began = time.monotonic()
    rows = (await moved(tmp_path, dsn)).rows
    record_property("ms to move 20,000 messages", round((time.monotonic() - began) * 1000))
    assert rows["message"] > 20_000
    assert rows["part"] > 20_000
