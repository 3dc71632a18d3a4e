"""`asyncagents mcp`: list the MCP servers of a directory, their state and what they offer."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, directory_option, json_option, project_folder


@click.group(invoke_without_command=True)
@click.pass_context
def mcp(context: click.Context) -> None:
    """Show the MCP servers of this directory.

    Without a subcommand, lists them.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_servers)


@mcp.command("list")
@json_option
@directory_option
@data_dir_option
@click.pass_context
def list_servers(
    context: click.Context,
    *,
    as_json: bool = False,
    directory: Path = Path(),
    data_dir: Path | None = None,
) -> None:
    """Start every MCP server of this directory, and list what they offer.

    Each server is started, queried and stopped. The exit code is 1 if an enabled server cannot be used.
    """
    import asyncio

    from asyncagents.cli.exit import FAILED
    from asyncagents.cli.mcp_list import show_servers

    good = asyncio.run(show_servers(project_folder(directory), data_dir, as_json=as_json))
    context.exit(0 if good else FAILED)
