"""`asyncagents migrate`: upgrade the schema of a shared database, or move a data directory into it."""

import asyncio
from pathlib import Path

import click


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
    from asyncagents.cli.migrate_do import bring, move_in

    if restored and source is not None:
        raise click.UsageError("--restored and --from exclude each other")
    asyncio.run(bring(restored=restored) if source is None else move_in(source, pool))
