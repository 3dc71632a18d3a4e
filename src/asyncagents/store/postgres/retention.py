"""Deletes expired rows of PostgreSQL, a piece at a time, while the store is in use."""

import asyncio
import logging

import asyncpg

from asyncagents.domain.clock import Rng
from asyncagents.errors import StoreError
from asyncagents.store.postgres.errors import CONNECTION_LOST
from asyncagents.store.postgres.pool import CONNECT_TIMEOUT_SECONDS, Connection, connect_with_retry

EVERY_SECONDS = 3_600
PIECE = 2_000
KEEP_DAYS = 30
"""Feed readers with an older cursor get a reset."""
_LOCK_KEY = 0x74_69_64_79
_TOMBSTONES = (
    "DELETE FROM tombstone WHERE ctid = ANY(ARRAY(SELECT ctid FROM tombstone WHERE rev <= $1 LIMIT $2))"
)
_QUEUE_LOG = (
    "DELETE FROM pgqueuer_log WHERE ctid = ANY(ARRAY(SELECT ctid FROM pgqueuer_log"
    " WHERE aggregated AND created < clock_timestamp() - interval '1 day' LIMIT $1))"
)
_QUEUE_SUMS = (
    "DELETE FROM pgqueuer_statistics WHERE ctid = ANY(ARRAY(SELECT ctid FROM pgqueuer_statistics"
    " WHERE created < clock_timestamp() - interval '7 days' LIMIT $1))"
)
_DEAD = (
    "DELETE FROM worker WHERE beat < clock_timestamp() - interval '1 day'",
    "DELETE FROM mark WHERE day < CURRENT_DATE - 2 AND xid < (SELECT MAX(xid) FROM mark)",
)
"""Rows of dead processes, and of ended connections."""

_log = logging.getLogger(__name__)


async def tidy_forever(dsn: str, rng: Rng) -> None:
    while True:
        await asyncio.sleep(EVERY_SECONDS * (0.5 + rng.below(1000) / 1000))
        try:
            connection = await connect_with_retry(
                dsn, rng, until=asyncio.get_running_loop().time() + CONNECT_TIMEOUT_SECONDS
            )
            try:
                await tidy(connection)
            finally:
                connection.terminate()
        except (StoreError, *CONNECTION_LOST, asyncpg.PostgresError) as error:
            _log.warning("database action=tidy: failed; will retry: %s", error)


async def tidy(connection: Connection, *, keep_days: int = KEEP_DAYS, piece: int = PIECE) -> bool:
    """Delete expired rows. False: another process is doing it."""
    if not await connection.fetchval("SELECT pg_try_advisory_lock($1)", _LOCK_KEY):
        return False
    try:
        await _forget_deleted(connection, keep_days, piece)
        for statement in (_QUEUE_LOG, _QUEUE_SUMS):
            while _count(await connection.execute(statement, piece)) == piece:
                pass
        for statement in _DEAD:
            await connection.execute(statement)
    finally:
        await connection.execute("SELECT pg_advisory_unlock($1)", _LOCK_KEY)
    return True


async def _forget_deleted(connection: Connection, keep_days: int, piece: int) -> None:
    """Note today's revision and delete old tombstones; the horizon rises first, so no reader misses one."""
    await connection.execute(
        "INSERT INTO noted_day (day, rev) SELECT current_date, base + durable() FROM revision"
        " ON CONFLICT DO NOTHING"
    )
    upto = await connection.fetchval(
        "SELECT MAX(rev) FROM noted_day WHERE day <= current_date - $1::int", keep_days
    )
    if upto is None:
        return
    await connection.execute("UPDATE revision SET horizon = GREATEST(horizon, $1)", upto)
    while _count(await connection.execute(_TOMBSTONES, upto, piece)) == piece:
        pass
    await connection.execute("DELETE FROM noted_day WHERE rev < $1", upto)


def _count(status: str) -> int:
    return int(status.rpartition(" ")[2])
