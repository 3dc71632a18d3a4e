"""The doctor's checks of a shared PostgreSQL database."""

from collections.abc import Iterator
from typing import Any

from asyncagents.app.backend import MISSING
from asyncagents.cli.doctor.report import Check
from asyncagents.config.clock import SystemRng
from asyncagents.config.fleet import Fleet
from asyncagents.errors import StoreError

MIB = 1024 * 1024
MAX_TRANSACTION_SECONDS = 30
MAX_CONNECTION_SHARE = 0.8
MAX_POOLS_SHOWN = 5
"""Pools that a message lists."""


async def check_fleet(fleet: Fleet) -> list[Check]:
    try:
        from asyncagents.store.postgres.inspect import PostgresInspection, inspect  # optional extra
    except ModuleNotFoundError:
        return [Check("fail", "database", MISSING)]
    try:
        seen: PostgresInspection = await inspect(fleet.store, SystemRng())
    except StoreError as error:
        hint = "check ASYNCAGENTS_STORE, and that the server runs and accepts this machine"
        return [Check("fail", "database", str(error), hint)]
    if seen.needs > seen.ours:
        newer = f"it has schema {seen.schema}; this version supports {seen.ours}"
        return [Check("fail", "database", newer, "`pip install --upgrade asyncagents`")]
    size = f"{seen.sessions} sessions, {seen.bytes / MIB:.1f} MiB"
    if seen.schema == 0:
        return [
            Check("ok", "database", f"PostgreSQL {seen.server}, no schema yet: the first start creates it")
        ]
    found = [Check("ok", "database", f"PostgreSQL {seen.server}: schema {seen.schema}, {size}")]
    living = [each for each in seen.neighbours if each.lives]
    for each in living:
        where = f"{each.kind} on {each.host}, process {each.pid}"
        found.append(
            Check(
                "ok", "process", f"{where}: {each.runs} of {each.capacity} sessions, {', '.join(each.pools)}"
            )
        )
    return [*found, *_check_health(seen)]


def _check_health(seen: Any) -> Iterator[Check]:
    """Check the health of the database; `seen` is the inspection, whose module needs the extra."""
    used, allowed = seen.connections
    if used > MAX_CONNECTION_SHARE * allowed:
        hint = "raise max_connections, or lower ASYNCAGENTS_CONNECTIONS"
        yield Check("warn", "connections", f"{used} of {allowed} are in use", hint)
    for name in seen.unsafe:
        text = f"{name} is off: a crash of the server may lose acknowledged writes"
        yield Check("warn", "durability", text, f"`ALTER SYSTEM SET {name} = on`, and reload")
    if seen.oldest_seconds > MAX_TRANSACTION_SECONDS:
        text = f"one has been open for {seen.oldest_seconds:.0f} s and delays all change feeds"
        yield Check("warn", "transactions", text, "find it in pg_stat_activity and terminate it")
    if seen.left:
        pools = ", ".join(f"{count} in {pool}" for pool, count in list(seen.left.items())[:MAX_POOLS_SHOWN])
        more = (
            f" and {len(seen.left) - MAX_POOLS_SHOWN} more pools" if len(seen.left) > MAX_POOLS_SHOWN else ""
        )
        hint = (
            f"run `asyncagents worker --pools {','.join(list(seen.left)[:MAX_POOLS_SHOWN])}` "
            "on a machine that has their directories"
        )
        yield Check("warn", "sessions", f"work that no process does: {pools}{more}", hint)
    dead = sum(not each.lives for each in seen.neighbours)
    if dead:
        yield Check(
            "ok", "processes", f"{dead} died in the last days; other processes took over their sessions"
        )
