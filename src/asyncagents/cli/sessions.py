"""`asyncagents sessions`: list root sessions with their status."""

from pathlib import Path

import click

from asyncagents.cli.option import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)

LIMIT = 20


@click.command()
@click.option("--all", "everywhere", is_flag=True, help="List those of all directories.")
@click.option("--limit", type=click.IntRange(min=1), default=LIMIT, show_default=True, help="Maximum number.")
@json_option
@directory_option
@data_dir_option
def sessions(*, everywhere: bool, limit: int, as_json: bool, directory: Path, data_dir: Path | None) -> None:
    """List the sessions of this directory, newest first.

    Child sessions are not listed; `asyncagents show` lists those of a session.
    """
    import asyncio

    from asyncagents.cli.look import look
    from asyncagents.cli.sessions_list import NONE, listed, print_json, print_rows

    where = None if everywhere else project_folder(directory)
    found = asyncio.run(
        look(data_directory(data_dir), lambda runtime: listed(runtime, where, limit), nothing=NONE)
    )
    if as_json:
        print_json(found)
    elif found:
        print_rows(found, everywhere=everywhere)
    else:
        click.echo(
            "no sessions" if everywhere else f"no sessions of {where}; --all lists all others", err=True
        )
