"""Record a store of this version: `python -m tests.recorded --out tests/fixtures/recorded/0.2`."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

import asyncpg

from asyncagents.store.postgres.migrate import load_scripts as load_postgres_scripts
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.migrate import load_scripts
from asyncagents.testing.clock import FakeClock, SeededRng
from asyncagents.version import VERSION
from tests.recorded.fixture import write_directory, write_dump, write_inventory
from tests.recorded.inventory import take_inventory
from tests.recorded.record import FILE, Played, played
from tests.recorded.rows import sqlite_rows
from tests.simulation.replay import replay
from tests.simulation.tape import Recorded
from tests.support.postgres.database import Server, a_database, open_server

DEAD_WORKER = (
    "INSERT INTO worker (id, host, pid, kind, pools, runs, capacity, listens, started, beat, patience) "
    "VALUES ($1, 'recorded', 4711, 'serve', '{local}', 1, 100, false, "
    "to_timestamp($2::bigint / 1000), to_timestamp($2::bigint / 1000), '10 s')"
)


async def inventory_of(done: Played) -> dict[str, Any]:
    """Read a copy of the recorded files, so that they stay as they are."""
    with tempfile.TemporaryDirectory() as folder:
        for name, body in done.files.items():
            (Path(folder) / name).write_bytes(body)
        path = Path(folder) / FILE
        async with open_sqlite(path, clock=FakeClock(done.now), rng=SeededRng(1)) as database:
            found = await take_inventory(database, sqlite_rows(path))
    return {
        "version": VERSION,
        "schema": {"sqlite": len(load_scripts()), "postgres": len(load_postgres_scripts())},
        "recorded": done.now,
        "owner": done.owner,
        "names": done.sessions,
        **found,
    }


async def dump(done: Played, server: Server, target: Path) -> None:
    """Do on PostgreSQL what was done on SQLite, verb by verb, and dump the database."""
    async with a_database(server) as dsn:
        await replay(Recorded(done.path, done.log, 0, ""), dsn)
        connection = await asyncpg.connect(dsn)
        try:
            await connection.execute(DEAD_WORKER, done.owner, done.now)
        finally:
            await connection.close()
        await write_dump(target, dsn, server.binaries / "pg_dump")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.recorded", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="a new folder, named after the version")
    target: Path = parser.parse_args().out
    target.mkdir(parents=True)
    with played() as done, open_server() as server:
        write_directory(target, done.files, done.owner)
        write_inventory(target, asyncio.run(inventory_of(done)))
        asyncio.run(dump(done, server, target))
    sizes = {path.name: path.stat().st_size for path in sorted(target.iterdir())}
    sys.stdout.write(f"{sizes}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
