"""`asyncagents commands`: list the slash commands of a directory."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, directory_option, json_option, project_folder


@click.command()
@json_option
@directory_option
@data_dir_option
def commands(*, as_json: bool, directory: Path, data_dir: Path | None) -> None:
    """List the slash commands of this directory.

    `asyncagents run "/name arguments"` runs one. Unusable commands are listed last, with the reason.
    """
    import asyncio

    from asyncagents.cli.commands_list import show_commands

    asyncio.run(show_commands(project_folder(directory), data_dir, as_json=as_json))
