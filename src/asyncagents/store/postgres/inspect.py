"""Inspects a PostgreSQL database and its processes. Changes nothing."""

import asyncio

import asyncpg
import msgspec
from msgspec import Struct

from asyncagents.domain.clock import Rng
from asyncagents.errors import StoreError
from asyncagents.store.postgres.errors import CONNECTION_LOST
from asyncagents.store.postgres.migrate import load_scripts
from asyncagents.store.postgres.pool import Connection, connect_with_retry

CONNECT_TIMEOUT_SECONDS = 3.0
_QUEUED = "SELECT COUNT(*) FROM pgqueuer WHERE status = 'queued'"


class WorkerProcess(Struct, frozen=True, array_like=True):
    """A process that uses the database."""

    id: str
    host: str
    pid: int
    kind: str
    pools: tuple[str, ...]
    runs: int
    capacity: int
    lives: bool


class PostgresInspection(Struct, frozen=True):
    server: str
    schema: int
    """0: our schema is not installed."""
    needs: int
    ours: int
    sessions: int
    bytes: int
    neighbours: tuple[WorkerProcess, ...] = ()
    left: dict[str, int] = {}
    """Sessions with work in pools that no living process serves, by pool."""
    waiting: int = 0
    """Jobs in the queue."""
    connections: tuple[int, int] = (0, 0)
    """Connections in use, and allowed."""
    unsafe: tuple[str, ...] = ()
    """Settings with which a crash may lose acknowledged writes."""
    oldest_seconds: float = 0.0
    """Age of the oldest writing transaction: readers of the feed wait for it."""


async def inspect(dsn: str, rng: Rng) -> PostgresInspection:
    """Inspect a database. Raises `StoreError`."""
    until = asyncio.get_running_loop().time() + CONNECT_TIMEOUT_SECONDS
    connection = await connect_with_retry(dsn, rng, until=until)
    try:
        return await _inspect(connection)
    except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
        raise StoreError(f"the database could not be inspected: {error}") from error
    finally:
        connection.terminate()


async def _inspect(connection: Connection) -> PostgresInspection:
    server = await connection.fetchval("SHOW server_version")
    size = await connection.fetchval("SELECT pg_database_size(current_database())")
    there = await connection.fetchval("SELECT to_regclass('asyncagents_schema') IS NOT NULL")
    if not there:
        return PostgresInspection(
            server=server, schema=0, needs=0, ours=len(load_scripts()), sessions=0, bytes=size
        )
    schema, needs = await connection.fetchrow("SELECT version, min_reader FROM asyncagents_schema")
    neighbours = await _worker_processes(connection)
    served = sorted({pool for each in neighbours if each.lives and each.capacity for pool in each.pools})
    queue = await connection.fetchval("SELECT to_regclass('pgqueuer') IS NOT NULL")
    return PostgresInspection(
        server=server,
        schema=schema,
        needs=needs,
        ours=len(load_scripts()),
        sessions=await connection.fetchval("SELECT COUNT(*) FROM session"),
        bytes=size,
        neighbours=neighbours,
        left=await _unserved_sessions(connection, served),
        waiting=await connection.fetchval(_QUEUED) if queue else 0,
        connections=tuple(
            await connection.fetchrow(
                "SELECT (SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int,"
                " current_setting('max_connections')::int"
            )
        ),
        unsafe=tuple(
            row[0]
            for row in await connection.fetch(
                "SELECT name FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off'"
            )
        ),
        oldest_seconds=await connection.fetchval(
            "SELECT COALESCE(MAX(extract(epoch FROM clock_timestamp() - xact_start)), 0)::float8"
            " FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND datname = current_database()"
        ),
    )


async def _unserved_sessions(connection: Connection, served: list[str]) -> dict[str, int]:
    rows = await connection.fetch(
        "SELECT pool, COUNT(*) FROM session WHERE state <> 'idle' AND NOT pool = ANY($1)"
        " GROUP BY pool ORDER BY 2 DESC, 1",
        served,
    )
    return dict(tuple(row) for row in rows)


async def _worker_processes(connection: Connection) -> tuple[WorkerProcess, ...]:
    rows = await connection.fetch(
        "SELECT id, host, pid, kind, pools, runs, capacity, beat > clock_timestamp() - patience"
        " FROM worker ORDER BY started"
    )
    return tuple(msgspec.convert(tuple(row), WorkerProcess) for row in rows)
