"""`asyncagents export`: write sessions as JSON, for another machine or a backup."""

from pathlib import Path

import click

from asyncagents.cli.look import is_empty
from asyncagents.cli.option import data_dir_option, data_directory


@click.command()
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@click.option(
    "--to",
    "target",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write files below this directory, which must be new or empty.",
)
@data_dir_option
def export(*, sessions: tuple[str, ...], target: Path | None, data_dir: Path | None) -> None:
    """Write sessions as JSON, for a backup or another machine.

    SESSION is an id, or a unique prefix of one. With --to, each is written with all sessions below it;
    without SESSION, all sessions are. Without --to, one session is printed, in the form of `opencode export`.
    Secrets are never written.
    """
    import asyncio

    from asyncagents.cli.export_write import nothing, print_document, write_files

    data = data_directory(data_dir)
    if is_empty(data):
        raise nothing(data)
    asyncio.run(print_document(data, sessions) if target is None else write_files(data, sessions, target))
