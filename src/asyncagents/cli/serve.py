"""`asyncagents serve`: run all sessions of a data directory, and serve the HTTP API."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, directory_option, project_folder
from asyncagents.config.fleet import CONCURRENCY


@click.command()
@click.option(
    "--hostname", metavar="ADDRESS", default="127.0.0.1", help="Address to listen on; default: 127.0.0.1."
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65_535),
    help="Port, or the first free one of the nine after it; else ASYNCAGENTS_API_PORT, else 5165.",
)
@click.option(
    "--no-auth", is_flag=True, help="Give every program of this machine full access without the token."
)
@click.option(
    "--cors",
    "origins",
    metavar="ORIGIN",
    multiple=True,
    help="Allow browser requests from this origin, such as http://localhost:3000; repeatable.",
)
@click.option(
    "--allow-host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Accept this Host header too, for a tunnel or a proxy; repeatable.",
)
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(0, 2_000),
    default=CONCURRENCY,
    help="With ASYNCAGENTS_STORE: max concurrent sessions; 0: only serve the API, run no sessions.",
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
    """Run all sessions of a data directory, and serve the HTTP API.

    Unfinished work continues. The address is printed, and stored with the token in server.json of the data
    directory, where every other command finds it. SIGINT or SIGTERM stop it: responses finish, and
    interrupted work continues with the next start. A second signal exits at once; nothing is lost by that.
    ASYNCAGENTS_API_ENABLED=false: it runs sessions and does not listen. With ASYNCAGENTS_STORE sessions are
    stored in a shared database, with any number of servers and workers.

    Exit codes: 0 stopped; 1 the data or the token cannot be used; 2 wrong usage; 4 another server runs on
    that data; 130 and 143 exited at once.
    """
    from asyncagents.cli.serve_work import Wanted, work

    wanted = Wanted(hostname, port, auth=not no_auth, origins=origins, hosts=hosts, concurrency=concurrency)
    work(wanted, project_folder(directory), data_directory(data_dir))
