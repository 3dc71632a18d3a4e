"""A real PostgreSQL for tests: servers, and databases that are made for one test and dropped after it."""

import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import asyncpg

from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.store.postgres.database import open_postgres
from asyncagents.store.postgres.migrate import load_scripts
from tests.support.postgres.proxy import Proxy, proxy
from tests.support.postgres.server import Server, open_server, shared_server

__all__ = [
    "Proxy",
    "Server",
    "a_database",
    "an_empty_database",
    "database",
    "open_server",
    "proxy",
    "shared_server",
    "template",
]


@asynccontextmanager
async def database(server: Server, *, template: str | None = None) -> AsyncIterator[str]:
    """The address of a new copy of the template; dropped at the end, whoever is still connected."""
    name = f"test_{secrets.token_hex(8)}"
    async with _admin(server) as admin:
        await _create(admin, name, template or "template0")
    try:
        yield server.dsn(name)
    finally:
        # A server that the test stopped takes its databases along.
        with suppress(OSError):
            async with _admin(server) as admin:
                await _drop(admin, name)


async def template(server: Server, name: str, prepare: Callable[[str], Awaitable[None]]) -> str:
    """Makes the template unless it is there, once among all processes; returns its name.

    `prepare` is given the address of an empty database and must leave no connection to it. On a server that
    outlives the run the template does too, so its name must say what is in it: add a hash of the schema.
    """
    async with _admin(server) as admin:
        await admin.execute("SELECT pg_advisory_lock(hashtext($1))", name)
        if not await admin.fetchval("SELECT count(*) FROM pg_database WHERE datname = $1", name):
            draft = f"draft_{secrets.token_hex(8)}"
            await _create(admin, draft, "template0")
            try:
                await prepare(server.dsn(draft))
                # A connection to a template would keep others from copying it.
                await admin.execute(f'ALTER DATABASE "{draft}" ALLOW_CONNECTIONS false')
                await admin.execute(f'ALTER DATABASE "{draft}" RENAME TO "{name}"')
            except BaseException:
                await _drop(admin, draft)
                raise
    return name


@asynccontextmanager
async def a_database(server: Server) -> AsyncIterator[str]:
    """A new one with our schema, of this process's alone."""
    async with database(server, template=await _ours(server)) as dsn:
        yield dsn


async def _ours(server: Server) -> str:
    digest = hashlib.sha256("".join(load_scripts()).encode()).hexdigest()[:16]
    return await template(server, f"asyncagents_{digest}", _with_schema)


_KEPT: dict[Server, str] = {}
_STAY = frozenset({"asyncagents_schema", "revision"})


@asynccontextmanager
async def an_empty_database(server: Server) -> AsyncIterator[str]:
    """As `a_database`, cheaper: one that the test before had, emptied. It goes with the server."""
    if server.is_shared_by_others:
        async with a_database(server) as dsn:
            yield dsn
        return
    if server not in _KEPT:
        source = await _ours(server)
        async with _admin(server) as admin:
            await _create(admin, "kept", source)
        _KEPT[server] = server.dsn("kept")
    await _empty(_KEPT[server])
    yield _KEPT[server]


async def _empty(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        tables = await connection.fetch("SELECT relname FROM pg_stat_user_tables")
        for name in {row[0] for row in tables} - _STAY:
            await connection.execute(f"DELETE FROM {name}")  # noqa: S608  a name of ours
        await connection.execute("UPDATE revision SET horizon = 0")
    finally:
        await connection.close()


async def _with_schema(dsn: str) -> None:
    async with open_postgres(dsn, clock=SystemClock(), rng=SystemRng()):
        pass


async def _create(admin: asyncpg.Connection, name: str, source: str) -> None:
    # Copying files is twice as fast as logging each page, on a server that does not sync.
    await admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{source}" STRATEGY file_copy')


async def _drop(admin: asyncpg.Connection, name: str) -> None:
    await admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@asynccontextmanager
async def _admin(server: Server) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(server.dsn(server.home_database))
    try:
        yield connection
    finally:
        await connection.close()
