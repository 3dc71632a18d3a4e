"""`asyncagents tools`: list the tools of an agent, with the rules for each."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, directory_option, json_option, project_folder


@click.command()
@click.option("--agent", metavar="NAME", help="The agent; default: the default agent.")
@click.option(
    "--all", "everything", is_flag=True, help="Include tools that are denied, and so hidden from the model."
)
@json_option
@directory_option
@data_dir_option
def tools(
    *, agent: str | None, everything: bool, as_json: bool, directory: Path, data_dir: Path | None
) -> None:
    """List the tools of an agent and the rules for each.

    `effect` says what a repeated run does: nothing (none), the same again (idempotent), or harm (once).
    Approvals (answers `always`) are not considered.
    """
    import asyncio

    from asyncagents.cli.tools_list import show_tools

    asyncio.run(
        show_tools(project_folder(directory), data_dir, agent, everything=everything, as_json=as_json)
    )
