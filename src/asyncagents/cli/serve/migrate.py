"""`asyncagents migrate`: upgrade the schema of a shared database, or move a data directory into it."""

import asyncio
from pathlib import Path

import click

from asyncagents.app.backend import MISSING
from asyncagents.cli.exit import CONFLICT, USAGE, CliError
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import STORE_VARIABLE, Fleet, fleet_config
from asyncagents.errors import ConfigError, Conflict


@click.command()
@click.option(
    "--from",
    "source",
    metavar="DATA_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Move the sessions of this data directory into the database, which must have no sessions.",
)
@click.option("--pool", metavar="NAME", help="The pool of the moved sessions; else ASYNCAGENTS_POOL.")
@click.option(
    "--restored",
    is_flag=True,
    help="The database was restored from a backup: reset event cursors and open connections.",
)
def migrate(*, source: Path | None, pool: str | None, restored: bool) -> None:
    """Upgrade a shared database, or move a data directory into it.

    The database that ASYNCAGENTS_STORE names gets this version's schema. Every process upgrades it when it
    starts; this command does so in advance. Old and new processes may run side by side as long as the schema
    allows it. With --from, the database file of a data directory is copied in one transaction: all of it, or
    nothing. The file is not changed; no process may use it meanwhile. Use --restored after restoring a backup
    into the same server; in another server a restore is detected.

    Exit codes: 0 done; 1 the database or the file cannot be used; 2 wrong usage; 4 the file is in use, or
    the database has sessions.
    """

    if restored and source is not None:
        raise click.UsageError("--restored and --from exclude each other")
    asyncio.run(upgrade_schema(restored=restored) if source is None else move_data(source, pool))


async def upgrade_schema(*, restored: bool = False) -> None:
    fleet = _fleet()
    try:
        from asyncagents.store.postgres.database import open_postgres  # optional extra
        from asyncagents.store.postgres.migrate import load_scripts, reset_epoch  # optional extra
    except ModuleNotFoundError as error:
        raise ConfigError(f"{MISSING} ({error})") from error
    async with open_postgres(fleet.store, clock=SystemClock(), rng=SystemRng()):
        if restored:
            await reset_epoch(fleet.store, SystemRng())
            click.echo("event cursors and open connections of this database are reset")
        click.echo(f"the database is ready for this version (schema {len(load_scripts())})")


async def move_data(source: Path, pool: str | None) -> None:
    fleet = _fleet()
    await upgrade_schema()
    from asyncagents.store.postgres.move_from_sqlite import move_store  # optional extra

    def print_count(table: str, rows: int) -> None:
        click.echo(f"{table}: {rows}", err=True)

    path = source / "asyncagents.db"
    try:
        done = await move_store(path, fleet.store, rng=SystemRng(), pool=pool or fleet.pool, told=print_count)
    except Conflict as error:
        raise CliError(str(error), code=CONFLICT) from error
    click.echo(f"moved {done.rows['session']} sessions, {done.rows['message']} messages")
    if done.replaced:
        click.echo(f"{done.replaced} characters that PostgreSQL cannot store became U+FFFD", err=True)


def _fleet() -> Fleet:
    fleet = fleet_config(system_environment())
    if fleet is None:
        hint = f"set {STORE_VARIABLE}=postgresql://user@host/database"
        raise CliError(f"{STORE_VARIABLE} names no database", hint=hint, code=USAGE)
    return fleet
