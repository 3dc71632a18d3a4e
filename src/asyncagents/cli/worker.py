"""`asyncagents worker`: work on the sessions of pools, on a database that many share."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, directory_option, project_folder
from asyncagents.config.fleet import CONCURRENCY


@click.command()
@click.option(
    "--pools",
    metavar="NAMES",
    help="Whose sessions to run, with commas between; else ASYNCAGENTS_POOL, else this machine's own.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 2_000),
    default=CONCURRENCY,
    help=f"Sessions at work here at once; {CONCURRENCY} unless given.",
)
@click.option(
    "--drain",
    metavar="SECONDS",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    help="At the end let turns finish for so long; 30 unless given. What is cut off others go on with.",
)
@directory_option
@data_dir_option
def worker(
    *, pools: str | None, concurrency: int, drain: float, directory: Path, data_dir: Path | None
) -> None:
    """Work on sessions of a shared database, beside others.

    The database is that of ASYNCAGENTS_STORE. Start as many as you like, on as many machines: each session is
    run by one of them at a time, and if one dies others go on with what it did. A session belongs to a pool:
    that of the machine it was made on, or the one that ASYNCAGENTS_POOL names there, for machines that share
    their directories. SIGINT or SIGTERM: it takes nothing new, and ends when its turns have, at the latest
    after --drain; a second one ends it at once, and nothing is lost by that.

    Exit codes: 0 stopped; 1 the database cannot be used; 2 wrong usage; 130 and 143 ended at once.
    """
    from asyncagents.cli.worker_work import Wanted, work

    names = tuple(name.strip() for name in pools.split(",") if name.strip()) if pools else ()
    work(Wanted(names, concurrency, drain), project_folder(directory), data_directory(data_dir))
