"""`asyncagents asks`: list open asks, and calls that wait for an outside result."""

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
@click.option("--session", "-s", metavar="ID", help="Only the tree of this session.")
@click.option("--all", "everywhere", is_flag=True, help="List those of all directories.")
@json_option
@directory_option
@data_dir_option
def asks(
    *, session: str | None, everywhere: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List open asks, the newest last.

    `asyncagents answer ID` answers one. Calls that wait for an outside result are listed separately: they
    take no answer.
    """
    import asyncio

    from asyncagents.cli.asks_list import NONE, Scope, listed, print_all, print_json
    from asyncagents.cli.look import look

    scope = Scope(session, None if everywhere or session else project_folder(directory))
    found = asyncio.run(look(data_directory(data_dir), lambda runtime: listed(runtime, scope), nothing=NONE))
    print_json(found) if as_json else print_all(found, scope)
