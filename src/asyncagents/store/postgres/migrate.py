"""Migrates a database to this program's schema: forward only, one process at a time, refused when too new."""

import asyncio
import re

import asyncpg
from msgspec import Struct

from asyncagents.domain.clock import Rng
from asyncagents.errors import SchemaMismatch, StoreError
from asyncagents.store.postgres.pool import CONNECT_TIMEOUT_SECONDS, Connection, connect_with_retry
from asyncagents.store.postgres.statement import migration_files

MIN_SERVER_VERSION = 140_000
MIGRATION_LOCK = 0x61_67_65_6E_74_73
"""The advisory lock that orders processes that start at once."""


def load_scripts() -> tuple[str, ...]:
    return tuple(file.read_text() for file in migration_files())


async def migrate(connection: Connection, *, epoch: str, scripts: tuple[str, ...]) -> None:
    """Run missing migrations; safe when processes start at once. Raises `SchemaMismatch`, `StoreError`."""
    if (version := await connection.fetchval("SHOW server_version_num")) and int(
        version
    ) < MIN_SERVER_VERSION:
        raise StoreError("PostgreSQL 14 or newer is required: upgrade the server")
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
        done = await _version(connection)
        for number, script in enumerate(scripts[done:], start=done + 1):
            await connection.execute(script)
            await _record_version(connection, number, script)
        await _rebase_if_moved(connection, epoch)
    await refuse_newer(connection, len(scripts))


async def _version(connection: Connection) -> int:
    if await connection.fetchval("SELECT to_regclass('asyncagents_schema')") is None:
        await connection.execute(
            "CREATE TABLE asyncagents_schema "
            "(id INT PRIMARY KEY CHECK (id = 1), version INT NOT NULL, min_reader INT NOT NULL, queue TEXT)"
        )
    return await connection.fetchval("SELECT version FROM asyncagents_schema") or 0


async def _record_version(connection: Connection, number: int, script: str) -> None:
    found = re.search(r"^-- min_reader: (\d+)", script, re.MULTILINE)
    await connection.execute(
        "INSERT INTO asyncagents_schema (id, version, min_reader) VALUES (1, $1, $2) "
        "ON CONFLICT (id) DO UPDATE SET version = excluded.version, "
        "min_reader = GREATEST(asyncagents_schema.min_reader, excluded.min_reader)",
        number,
        int(found[1]) if found else number,
    )


async def _rebase_if_moved(connection: Connection, epoch: str) -> None:
    """Rebase revisions in another cluster: they are transaction numbers, which begin anew there. A restored
    copy continues above all its revisions, and cursors become invalid."""
    if not await connection.fetchval(
        "SELECT 1 FROM revision, pg_control_system() WHERE id = 1 AND cluster = system_identifier::text"
    ):
        await rebase_revisions(connection, epoch=epoch)


async def rebase_revisions(connection: Connection, *, epoch: str, least: int = 0) -> None:
    """Continue revisions above those of all rows and above `least`; cursors become invalid."""
    await connection.execute(
        "INSERT INTO revision (id, base, epoch, horizon, cluster) "
        "SELECT 1, newest - pg_current_xact_id()::text::bigint + 1, $1, 0, system_identifier::text "
        "FROM pg_control_system(), ("
        "  SELECT GREATEST(MAX(rev), $2) AS newest FROM ("
        "    SELECT MAX(rev) AS rev FROM session UNION ALL SELECT MAX(rev) FROM message"
        "    UNION ALL SELECT MAX(rev) FROM part UNION ALL SELECT MAX(rev) FROM input"
        "    UNION ALL SELECT MAX(rev) FROM call UNION ALL SELECT MAX(rev) FROM task"
        "    UNION ALL SELECT MAX(rev) FROM todo UNION ALL SELECT MAX(rev) FROM tombstone"
        "    UNION ALL SELECT MAX(rev) FROM delivery UNION ALL SELECT MAX(horizon) FROM revision"
        "    UNION ALL SELECT MAX(rev) FROM noted_day) AS each) AS last "
        "ON CONFLICT (id) DO UPDATE SET base = GREATEST(revision.base, excluded.base), "
        "epoch = excluded.epoch, "
        "cluster = excluded.cluster",
        epoch,
        least,
    )
    await connection.execute(
        "WITH gone AS (DELETE FROM mark WHERE slot <> 0 AND xid >= pg_current_xact_id()::text::bigint) "
        "INSERT INTO mark (slot, token, xid) "
        "VALUES (0, 0, pg_current_xact_id()::text::bigint) "
        "ON CONFLICT (slot) DO UPDATE SET xid = excluded.xid"
    )


async def reset_epoch(dsn: str, rng: Rng) -> None:
    """Change the epoch after a restore in the same cluster: cursors and open connections become invalid."""
    connection = await connect_with_retry(
        dsn, rng, until=asyncio.get_running_loop().time() + CONNECT_TIMEOUT_SECONDS
    )
    try:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock($1)", MIGRATION_LOCK)
            await rebase_revisions(connection, epoch=f"{rng.below(2**48):012x}")
    except asyncpg.PostgresError as error:
        raise StoreError(f"the epoch of the database could not be changed: {error}") from error
    finally:
        connection.terminate()


class DatabaseIdentity(Struct, frozen=True):
    """Identifies the database that this process opened."""

    epoch: str
    schema: int

    async def check(self, connection: Connection) -> None:
        """Raise `SchemaMismatch` if the database was replaced or its schema is too new: stop using it."""
        await refuse_newer(connection, self.schema)
        if await connection.fetchval("SELECT epoch FROM revision WHERE id = 1") != self.epoch:
            raise SchemaMismatch("the database was replaced or restored meanwhile: restart this process")


async def refuse_newer(connection: Connection, ours: int) -> None:
    """Raise `SchemaMismatch` if the database has no schema, or needs a newer program."""
    try:
        row = await connection.fetchrow("SELECT version, min_reader FROM asyncagents_schema")
    except asyncpg.UndefinedTableError:
        row = None
    if row is None:
        raise SchemaMismatch("the database has no asyncagents schema: run `asyncagents migrate`")
    if row[1] > ours:
        raise SchemaMismatch(
            f"the database has schema {row[0]} and needs a program that knows schema {row[1]}; "
            f"this one knows {ours}. Upgrade asyncagents."
        )
