"""Upgrades the schema of a shared database, and moves a data directory into it."""

from pathlib import Path

import click

from asyncagents.cli.exit import CONFLICT, USAGE, Complaint
from asyncagents.config.env import system_environment
from asyncagents.config.fleet import STORE_VARIABLE, Fleet, fleet_config
from asyncagents.config.system import SystemClock, SystemRng
from asyncagents.errors import ConfigError, Conflict
from asyncagents.world import MISSING


async def bring(*, restored: bool = False) -> None:
    fleet = _fleet()
    try:
        from asyncagents.store.postgres.database import open_postgres  # optional extra
        from asyncagents.store.postgres.migrate import begin_afresh, load_scripts  # optional extra
    except ModuleNotFoundError as error:
        raise ConfigError(f"{MISSING} ({error})") from error
    async with open_postgres(fleet.store, clock=SystemClock(), rng=SystemRng()):
        if restored:
            await begin_afresh(fleet.store, SystemRng())
            click.echo("event cursors and open connections of this database are reset")
        click.echo(f"the database is ready for this version (schema {len(load_scripts())})")


async def move_in(source: Path, pool: str | None) -> None:
    fleet = _fleet()
    await bring()
    from asyncagents.store.postgres.move import move  # optional extra

    def told(table: str, rows: int) -> None:
        click.echo(f"{table}: {rows}", err=True)

    path = source / "asyncagents.db"
    try:
        done = await move(path, fleet.store, rng=SystemRng(), pool=pool or fleet.pool, told=told)
    except Conflict as error:
        raise Complaint(str(error), code=CONFLICT) from error
    click.echo(f"moved {done.rows['session']} sessions, {done.rows['message']} messages")
    if done.replaced:
        click.echo(f"{done.replaced} characters that PostgreSQL cannot store became U+FFFD", err=True)


def _fleet() -> Fleet:
    fleet = fleet_config(system_environment())
    if fleet is None:
        hint = f"set {STORE_VARIABLE}=postgresql://user@host/database"
        raise Complaint(f"{STORE_VARIABLE} names no database", hint=hint, code=USAGE)
    return fleet
