"""`asyncagents agents`: who there is to work here, and what each of them may do."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, directory_option, json_option, project_folder


@click.command()
@click.argument("name", required=False)
@click.option("--all", "everyone", is_flag=True, help="Hidden ones too.")
@json_option
@directory_option
@data_dir_option
def agents(
    *, name: str | None, everyone: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List the agents of this directory, or show one in full.

    The default is marked with a star. With a NAME its rules are shown by where they come from, the later
    over the earlier, and its prompt. Files that cannot be used are named on stderr.
    """
    import asyncio

    from asyncagents.cli.agents_list import show_agents

    asyncio.run(show_agents(project_folder(directory), data_dir, name, everyone=everyone, as_json=as_json))
