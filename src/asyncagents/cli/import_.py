"""`asyncagents import`: sessions from an export, from OpenCode's storage or from what it exports."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--into",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Let the sessions work in this project from now on; else where they say.",
)
@click.option(
    "--trust",
    "trusted",
    is_flag=True,
    help="The export is your own: keep what its sessions are allowed, and who is told of results.",
)
@data_dir_option
def import_(*, path: Path, directory: Path | None, trusted: bool, data_dir: Path | None) -> None:
    """Bring in exported sessions, OpenCode's too.

    PATH is a directory that `asyncagents export --to` wrote, a file that `asyncagents export` or `opencode
    export` printed, or the data directory of an OpenCode that still kept files. What is there already stays
    as it is. Calls that waited for a result from outside wait for it here.
    """
    import asyncio

    from asyncagents.cli.import_read import read_files
    from asyncagents.cli.option import project_folder

    where = None if directory is None else project_folder(directory)
    asyncio.run(read_files(data_directory(data_dir), path, where, trusted=trusted))
