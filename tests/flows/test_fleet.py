"""Runtimes on one database: whose sessions they run, and what they forget."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from asyncagents.config.clock import SystemRng
from asyncagents.config.fleet import Fleet
from asyncagents.domain.conversation.status import Idle
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import SchemaMismatch
from asyncagents.llm.scripted import ScriptedModel, say
from asyncagents.store.postgres.migrate import reset_epoch
from asyncagents.store.postgres.retention import tidy
from asyncagents.store.postgres.statement import load_statements
from asyncagents.testing.inside import inside
from tests.support.http.server import serve_runtime
from tests.support.postgres.database import Server, a_database
from tests.support.runtime import open_runtime
from tests.support.wait import PATIENCE, wait_until


@pytest.fixture
async def dsn(postgres_server: Server) -> AsyncIterator[str]:
    async with a_database(postgres_server) as address:
        yield address


@asynccontextmanager
async def member(
    dsn: str, data: Path, pool: str, *pools: str, serve: bool = True
) -> AsyncIterator[tuple[Runtime, ScriptedModel]]:
    model = ScriptedModel({"hi": [[say(f"Hello from {pools[0] if pools else pool}.")]] * 50})
    fleet = Fleet(store=dsn, pool=pool, pools=pools or (pool,), heartbeat_seconds=2.0, concurrency=4)
    async with open_runtime(data, model=model, fleet=fleet, serve=serve) as runtime:
        yield runtime, model


@pytest.mark.spec("X-10")
async def test_a_session_is_run_only_by_a_process_that_serves_its_pool(dsn: str, tmp_path: Path) -> None:
    async with (
        member(dsn, tmp_path / "a", "one") as (here, mine),
        member(dsn, tmp_path / "b", "two") as (there, others),
        asyncio.timeout(PATIENCE),
    ):
        ours, theirs = await here.create_session(), await there.create_session()
        await here.prompt(theirs.id, "hi")  # sent here, run there
        await there.prompt(ours.id, "hi")
        assert len(mine.requests) == 1
        assert len(others.requests) == 1


@pytest.mark.spec("X-10")
async def test_a_session_of_an_unserved_pool_reports_no_worker_until_one_comes(
    dsn: str, tmp_path: Path
) -> None:
    async with member(dsn, tmp_path / "a", "far", serve=False) as (client, _), asyncio.timeout(PATIENCE):
        session = await client.create_session()
        await client.send(session.id, "hi")
        async with member(dsn, tmp_path / "c", "elsewhere"):

            async def lacks_worker() -> bool:
                return (await client.tasks.why(session.id)).code == "no_worker"

            await wait_until(lacks_worker)  # after a moment it is no longer about to be taken up
        async with member(dsn, tmp_path / "b", "near", "near", "far") as (_, model):
            await client.wait(session.id)
            assert len(model.requests) == 1
        assert isinstance(await client.status(session.id), Idle)


@pytest.mark.spec("X-10")
async def test_a_runtime_whose_database_was_restored_ends_and_its_readers_start_anew(
    dsn: str, tmp_path: Path
) -> None:
    cursors = []

    async def work() -> None:
        async with member(dsn, tmp_path, "p") as (runtime, _), asyncio.timeout(PATIENCE):
            await runtime.create_session()
            cursors.append(await inside(runtime).store.cursor())
            await reset_epoch(dsn, SystemRng())
            await asyncio.Event().wait()

    with pytest.raises(SchemaMismatch, match="restart this process"):
        await work()
    async with member(dsn, tmp_path, "p") as (runtime, _):
        assert len(await inside(runtime).store.roots()) == 1
        assert (await inside(runtime).store.feed(cursors[0])).reset
        await runtime.prompt((await runtime.create_session()).id, "hi")


@pytest.mark.spec("X-10")
async def test_a_runtime_that_does_not_serve_is_ready_while_another_serves(dsn: str, tmp_path: Path) -> None:
    async with (
        member(dsn, tmp_path / "a", "p", serve=False) as (front, _),
        serve_runtime(front, tmp_path / "a") as caller,
        asyncio.timeout(PATIENCE),
    ):
        assert (await caller.get("/ready")).status == 503
        async with member(dsn, tmp_path / "b", "p"):

            async def is_ready() -> bool:
                return (await caller.get("/ready")).status == 200

            await wait_until(is_ready)  # no event tells


@pytest.mark.spec("X-10")
async def test_every_statement_is_understood_by_the_server(dsn: str) -> None:
    """Also those that no contract asks for."""
    connection = await asyncpg.connect(dsn)
    try:
        for name, statement in load_statements().items():
            try:
                await connection.prepare(statement.text)
            except asyncpg.PostgresError as error:
                pytest.fail(f"{name}: {error}")
    finally:
        await connection.close()


async def test_old_tombstones_are_removed_while_work_goes_on(dsn: str, tmp_path: Path) -> None:
    async with member(dsn, tmp_path, "p") as (runtime, _), asyncio.timeout(PATIENCE):
        old = await inside(runtime).store.cursor()
        for _ in range(5):
            await runtime.delete_session((await runtime.create_session()).id)
        kept = await runtime.create_session()
        connection = await asyncpg.connect(dsn)
        try:
            assert await tidy(connection, piece=2)
            assert await connection.fetchval("SELECT COUNT(*) FROM tombstone") == 5
            await connection.execute("UPDATE noted_day SET day = day - 40")
            late = await runtime.create_session()
            await runtime.delete_session(late.id)
            assert await tidy(connection, piece=2)
            assert await connection.fetchval("SELECT COUNT(*) FROM tombstone") == 1
        finally:
            await connection.close()
        await runtime.prompt(kept.id, "hi")
        assert (await inside(runtime).store.feed(old)).reset
        assert not (await inside(runtime).store.feed(await inside(runtime).store.cursor())).reset


@pytest.mark.spec("X-10")
async def test_another_runtime_runs_the_session_of_one_that_has_closed(dsn: str, tmp_path: Path) -> None:
    async with member(dsn, tmp_path / "a", "p", serve=False) as (client, _), asyncio.timeout(PATIENCE):
        session = await client.create_session()
        async with member(dsn, tmp_path / "b", "p"):
            await client.prompt(session.id, "hi")
        await client.send(session.id, "hi")
        async with member(dsn, tmp_path / "c", "p") as (_, model):
            await client.wait(session.id)
            assert len(model.requests) == 1
