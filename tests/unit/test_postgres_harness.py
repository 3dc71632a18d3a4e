"""The PostgreSQL that tests talk to does what they take for granted."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.support.path import ROOT
from tests.support.postgres.database import Server, database, open_server, proxy, template
from tests.support.postgres.server import GIVEN
from tests.support.wait import PATIENCE, wait_until

pytestmark = pytest.mark.slow

LOST = (OSError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.AdminShutdownError)
SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'"
# Joins the server of a folder, says where it is, and stays until it is killed.
HOLDER = """
import sys, time
from pathlib import Path
from tests.support.postgres.server import shared_server

with shared_server(Path(sys.argv[1])) as server:
    print(*server.address, flush=True)
    time.sleep(60)
"""


@pytest.fixture
async def name(postgres_server: Server) -> AsyncIterator[str]:
    """Of a template that the server need not keep."""
    drawn = f"harness_{secrets.token_hex(8)}"
    yield drawn
    async with connected(postgres_server.dsn(postgres_server.home_database)) as connection:
        await connection.execute(f'DROP DATABASE IF EXISTS "{drawn}"')


@asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(dsn, timeout=PATIENCE)
    try:
        yield connection
    finally:
        connection.terminate()


async def test_a_query_reaches_a_new_database(postgres_server: Server) -> None:
    async with database(postgres_server) as dsn, connected(dsn) as connection:
        assert await connection.fetchval("SELECT current_database()") == urlsplit(dsn).path.lstrip("/")


async def test_a_database_is_dropped_despite_an_open_connection(postgres_server: Server) -> None:
    async with database(postgres_server) as dsn:
        left = await asyncpg.connect(dsn)
    with pytest.raises(LOST):
        await left.fetchval("SELECT 1")
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(dsn)
    left.terminate()


async def test_a_template_is_prepared_once_and_its_copies_share_no_rows(
    postgres_server: Server, name: str
) -> None:
    prepared: list[str] = []

    async def prepare(dsn: str) -> None:
        prepared.append(dsn)
        async with connected(dsn) as connection:
            await connection.execute("CREATE TABLE fact (name text)")
            await connection.close()

    assert await asyncio.gather(*(template(postgres_server, name, prepare) for _ in range(3))) == [name] * 3
    assert len(prepared) == 1
    async with (
        database(postgres_server, template=name) as one,
        database(postgres_server, template=name) as other,
        connected(one) as here,
        connected(other) as there,
    ):
        await here.execute("INSERT INTO fact VALUES ('known')")
        assert await there.fetchval("SELECT count(*) FROM fact") == 0


async def test_a_template_that_could_not_be_prepared_is_tried_anew(
    postgres_server: Server, name: str
) -> None:
    async def fail(dsn: str) -> None:
        raise ValueError(dsn)

    async def succeed(dsn: str) -> None:
        pass

    with pytest.raises(ValueError, match="postgresql://"):
        await template(postgres_server, name, fail)
    await template(postgres_server, name, succeed)
    async with database(postgres_server, template=name) as dsn, connected(dsn) as connection:
        assert await connection.fetchval("SELECT 1") == 1


async def test_an_immediate_restart_cuts_connections_and_keeps_committed_rows() -> None:
    with open_server(durable=True) as server:
        async with database(server) as dsn, connected(dsn) as before:
            assert await before.fetchval("SHOW fsync") == "on"
            assert await before.fetchval("SHOW synchronous_commit") == "on"
            await before.execute("CREATE TABLE fact AS SELECT 7 AS value")
            await asyncio.to_thread(server.restart)
            with pytest.raises(LOST):
                await before.fetchval("SELECT 1")
            async with connected(dsn) as after:
                assert await after.fetchval("SELECT value FROM fact") == 7


async def test_a_stopped_server_refuses_until_it_starts() -> None:
    with open_server() as server:
        async with database(server) as dsn:
            await asyncio.to_thread(server.stop)
            with pytest.raises(ConnectionRefusedError):
                await asyncpg.connect(dsn)
            await asyncio.to_thread(server.start)
            async with connected(dsn) as connection:
                assert await connection.fetchval("SELECT 1") == 1


def test_the_shared_server_refuses_to_restart(postgres_server: Server) -> None:
    with pytest.raises(RuntimeError, match="open_server"):
        postgres_server.restart()


async def test_a_frozen_connection_waits_and_goes_on_when_healed(postgres_server: Server) -> None:
    async with (
        proxy(postgres_server) as link,
        connected(link.dsn(postgres_server.home_database)) as old,
        asyncio.timeout(PATIENCE),
    ):
        link.freeze()
        answer = asyncio.ensure_future(old.fetchval("SELECT 7"))
        arrival = asyncio.ensure_future(asyncpg.connect(link.dsn(postgres_server.home_database)))
        for _ in range(3):  # meanwhile others are served
            async with connected(postgres_server.dsn(postgres_server.home_database)) as other:
                assert await other.fetchval("SELECT 7") == 7
        assert not answer.done()
        assert not arrival.done()
        link.heal()
        assert await answer == 7
        (await arrival).terminate()


async def test_a_cut_connection_is_lost_and_new_ones_are_refused_until_healed(
    postgres_server: Server,
) -> None:
    async with (
        proxy(postgres_server) as link,
        connected(postgres_server.dsn(postgres_server.home_database)) as witness,
        asyncio.timeout(PATIENCE),
    ):
        dsn = link.dsn(postgres_server.home_database)
        async with connected(dsn) as old:
            backend = await old.fetchval("SELECT pg_backend_pid()")
            waiting = asyncio.ensure_future(old.fetchval("SELECT pg_sleep(60)"))
            await wait_until(lambda: witness.fetchval(SLEEPING, backend))
            link.cut()
            with pytest.raises(LOST):
                await waiting
            with pytest.raises(ConnectionRefusedError):
                await asyncpg.connect(dsn)
            link.heal()
            async with connected(dsn) as new:
                assert await new.fetchval("SELECT 7") == 7


async def test_a_cut_of_a_frozen_proxy_ends_the_connection_on_the_server(postgres_server: Server) -> None:
    async with (
        proxy(postgres_server) as link,
        connected(postgres_server.dsn(postgres_server.home_database)) as witness,
        connected(link.dsn(postgres_server.home_database)) as old,
        asyncio.timeout(PATIENCE),
    ):
        alive = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
        backend = await old.fetchval("SELECT pg_backend_pid()")
        link.freeze()
        assert await witness.fetchval(alive, backend) == 1
        link.cut()

        async def is_gone() -> bool:
            return not await witness.fetchval(alive, backend)

        await wait_until(is_gone)


async def test_a_shared_server_runs_until_its_last_holder_dies(tmp_path: Path) -> None:
    first, second = await holder(tmp_path), await holder(tmp_path)
    address = await told(first)
    assert await told(second) == address
    first.send_signal(signal.SIGKILL)
    await first.wait()
    _, writer = await asyncio.open_connection(*address)
    second.send_signal(signal.SIGKILL)
    await second.wait()
    writer.close()
    await gone(address)


async def holder(home: Path) -> asyncio.subprocess.Process:
    environ = {name: value for name, value in os.environ.items() if name != GIVEN}
    command = (sys.executable, "-c", HOLDER, str(home))
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environ, stdout=subprocess.PIPE)


async def told(process: asyncio.subprocess.Process) -> tuple[str, int]:
    assert process.stdout is not None
    host, port = (await process.stdout.readline()).decode().split()
    return host, int(port)


async def gone(address: tuple[str, int]) -> None:
    async def refuses() -> bool:
        try:
            _, writer = await asyncio.open_connection(*address)
        except OSError:
            return True
        writer.close()
        return False

    await wait_until(refuses)
