"""`asyncagents serve`: work on all sessions of a data directory, and answer over HTTP."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, directory_option, project_folder
from asyncagents.config.fleet import CONCURRENCY


@click.command()
@click.option(
    "--hostname", metavar="ADDRESS", default="127.0.0.1", help="Listen here; 127.0.0.1 unless given."
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65_535),
    help="This port, or the first free one of the nine after it; else ASYNCAGENTS_API_PORT, else 5165.",
)
@click.option(
    "--no-auth", is_flag=True, help="Let every program of this machine do everything, without the token."
)
@click.option(
    "--cors",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="Let pages of this origin in, such as http://localhost:3000; may be given again.",
)
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Answer to this name too, as a tunnel or a proxy has one; may be given again.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(0, 2_000),
    default=CONCURRENCY,
    help="With ASYNCAGENTS_STORE, sessions at work here at once; 0: only answer, and leave work to workers.",
)
@directory_option
@data_dir_option
def serve(  # noqa: PLR0913  its options
    *,
    hostname: str,
    port: int | None,
    no_auth: bool,
    origins: tuple[str, ...],
    hosts: tuple[str, ...],
    concurrency: int,
    directory: Path,
    data_dir: Path | None,
) -> None:
    """Work on all sessions of a data directory, and answer over HTTP.

    Whatever is unfinished goes on. The address is printed, and stands with the token in server.json of the
    data directory, where every other command finds it. SIGINT or SIGTERM end it: answers finish, and work
    that is cut off goes on with the next start. A second one ends it at once: nothing is lost by that either.
    ASYNCAGENTS_API_ENABLED=false: it works, and does not listen. With ASYNCAGENTS_STORE sessions are kept in
    a database, and any number of servers and workers share them.

    Exit codes: 0 stopped; 1 the data or the token cannot be used; 2 wrong usage; 4 a server works on that
    data already; 130 and 143 ended at once.
    """
    from asyncagents.cli.serve_work import Wanted, work

    wanted = Wanted(hostname, port, auth=not no_auth, origins=origins, hosts=hosts, concurrency=concurrency)
    work(wanted, project_folder(directory), data_directory(data_dir))
