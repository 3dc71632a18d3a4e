"""`asyncagents agents`: list the agents of a directory, or show one with its rules and prompt."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, directory_option, json_option, project_folder


@click.command()
@click.argument("name", required=False)
@click.option("--all", "everyone", is_flag=True, help="Include hidden agents.")
@json_option
@directory_option
@data_dir_option
def agents(
    *, name: str | None, everyone: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List the agents of this directory, or show one in full.

    The default agent is marked with a star. With NAME, its rules are shown by origin (a later rule overrides
    an earlier one), then its prompt. Files that cannot be used are listed on stderr.
    """
    import asyncio

    from asyncagents.cli.agents_list import show_agents

    asyncio.run(show_agents(project_folder(directory), data_dir, name, everyone=everyone, as_json=as_json))
