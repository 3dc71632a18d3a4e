"""`asyncagents migrate`: bring a shared database to this version, or move a data directory into it."""

import asyncio
from pathlib import Path

import click


@click.command()
@click.option(
    "--from",
    "source",
    metavar="DATA_DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Move the sessions of this data directory into the database, which must have none yet.",
)
@click.option(
    "--pool", metavar="NAME", help="The pool that they belong to from then on; else ASYNCAGENTS_POOL."
)
@click.option(
    "--restored",
    is_flag=True,
    help="The database was restored from a backup: all who follow its events, or have it open, start anew.",
)
def migrate(*, source: Path | None, pool: str | None, restored: bool) -> None:
    """Bring a shared database up to date, or a data directory into it.

    The database is that of ASYNCAGENTS_STORE, and gets this version's schema. Every process does that by
    itself when it starts; this is for whoever wants it done before. Old and new processes may run side by
    side as long as the schema lets them. With --from everything that a data directory keeps in its file is
    copied in one transaction: all of it, or nothing. The file stays as it is; nobody may use it meanwhile.
    Run it with --restored after a backup was put back into the same server; in another one that is noticed.

    Exit codes: 0 done; 1 the database or the file cannot be used; 2 wrong usage; 4 the file is in use, or
    the database has sessions.
    """
    from asyncagents.cli.migrate_do import bring, move_in

    if restored and source is not None:
        raise click.UsageError("--restored and --from exclude each other")
    asyncio.run(bring(restored=restored) if source is None else move_in(source, pool))
