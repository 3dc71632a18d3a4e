"""`asyncagents tools`: what an agent works with here, and whether it must ask first."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, directory_option, json_option, project_folder


@click.command()
@click.option("--agent", metavar="NAME", help="Whose; the default agent's, unless said otherwise.")
@click.option(
    "--all", "everything", is_flag=True, help="Those too that are denied outright, and so not shown to it."
)
@json_option
@directory_option
@data_dir_option
def tools(
    *, agent: str | None, everything: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List the tools that an agent has here, and what the rules say.

    `effect` is what a second run would do: nothing (none), the same again (idempotent), or harm (once).
    What was answered with `always` is not counted here.
    """
    import asyncio

    from asyncagents.cli.tools_list import show_tools

    asyncio.run(
        show_tools(project_folder(directory), data_dir, agent, everything=everything, as_json=as_json)
    )
