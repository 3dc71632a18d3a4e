"""`asyncagents asks`: everything that waits for a person, and what else is waited for."""

from pathlib import Path

import click

from asyncagents.cli.option import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)


@click.command()
@click.option("--session", "-s", metavar="ID", help="Of this session and all that belong to its tree.")
@click.option("--all", "everywhere", is_flag=True, help="Of all directories.")
@json_option
@directory_option
@data_dir_option
def asks(
    *, session: str | None, everywhere: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List what waits for a person, the newest last.

    `asyncagents answer ID` answers. Calls that wait for a result from outside are named apart: nobody need
    answer those.
    """
    import asyncio

    from asyncagents.cli.asks_list import NONE, Scope, listed, print_all, print_json
    from asyncagents.cli.look import look

    scope = Scope(session, None if everywhere or session else project_folder(directory))
    found = asyncio.run(look(data_directory(data_dir), lambda runtime: listed(runtime, scope), nothing=NONE))
    print_json(found) if as_json else print_all(found, scope)
