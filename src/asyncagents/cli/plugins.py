"""`asyncagents plugins`: list the plugins of a directory with their hooks and errors."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, directory_option, json_option, project_folder


@click.command()
@json_option
@directory_option
@data_dir_option
def plugins(*, as_json: bool, directory: Path, data_dir: Path | None) -> None:
    """List the plugins of this directory with their state.

    They are imported and started, as for a session here. One that cannot be used is listed with its error;
    the others work. Plugins of a project that is not trusted are not imported.
    """
    import asyncio

    from asyncagents.cli.plugins_list import show_plugins

    asyncio.run(show_plugins(project_folder(directory), data_dir, as_json=as_json))
