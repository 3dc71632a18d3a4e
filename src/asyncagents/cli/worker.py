"""`asyncagents worker`: run the sessions of pools of a shared database."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, directory_option, project_folder
from asyncagents.config.fleet import CONCURRENCY


@click.command()
@click.option(
    "--pools",
    metavar="NAMES",
    help="Comma-separated pools to serve; else ASYNCAGENTS_POOL, else this machine's own.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 2_000),
    default=CONCURRENCY,
    help=f"Max concurrent sessions; default: {CONCURRENCY}.",
)
@click.option(
    "--drain",
    metavar="SECONDS",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    help="Time for turns to finish after a stop signal; default: 30. Other workers continue the rest.",
)
@directory_option
@data_dir_option
def worker(
    *, pools: str | None, concurrency: int, drain: float, directory: Path, data_dir: Path | None
) -> None:
    """Run sessions of a shared database, beside other workers.

    ASYNCAGENTS_STORE names the database. Start any number of workers on any number of machines: each session
    is run by one of them at a time, and if a worker dies, others continue its sessions. A session belongs to
    a pool: that of the machine it was created on, or the one that ASYNCAGENTS_POOL names there, for machines
    that share their directories. After SIGINT or SIGTERM it claims nothing new and stops when its turns have
    ended, at the latest after --drain; a second signal exits at once, and nothing is lost by that.

    Exit codes: 0 stopped; 1 the database cannot be used; 2 wrong usage; 130 and 143 exited at once.
    """
    from asyncagents.cli.worker_work import Wanted, work

    names = tuple(name.strip() for name in pools.split(",") if name.strip()) if pools else ()
    work(Wanted(names, concurrency, drain), project_folder(directory), data_directory(data_dir))
