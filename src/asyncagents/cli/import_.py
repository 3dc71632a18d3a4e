"""`asyncagents import`: import sessions from an export, or from OpenCode."""

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
    help="Move the sessions to this project directory; else they keep their own.",
)
@click.option(
    "--trust",
    "trusted",
    is_flag=True,
    help="The export is your own: keep the permissions and webhooks of its sessions.",
)
@data_dir_option
def import_(*, path: Path, directory: Path | None, trusted: bool, data_dir: Path | None) -> None:
    """Import exported sessions, also those of OpenCode.

    PATH is a directory that `asyncagents export --to` wrote, a file that `asyncagents export` or `opencode
    export` printed, or the data directory of an OpenCode version that stored files. Sessions that exist
    already are unchanged. Pending calls keep waiting for their result here.
    """
    import asyncio

    from asyncagents.cli.import_read import read_files
    from asyncagents.cli.option import project_folder

    where = None if directory is None else project_folder(directory)
    asyncio.run(read_files(data_directory(data_dir), path, where, trusted=trusted))
