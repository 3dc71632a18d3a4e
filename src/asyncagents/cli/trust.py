"""`asyncagents trust`: trust a project, or stop trusting it."""

from pathlib import Path

import click

from asyncagents.cli.option import json_option


@click.command()
@click.argument(
    "directory", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=Path()
)
@click.option("--remove", is_flag=True, help="Stop trusting it.")
@click.option("--list", "listing", is_flag=True, help="List trusted projects; change nothing.")
@json_option
def trust(*, directory: Path, remove: bool, listing: bool, as_json: bool) -> None:
    """Trust a project, so that all of its config files apply.

    Without trust they may choose models and be stricter, but not define a provider, plugin, server, command
    or file: their author could use these to steal your keys. What the project's files ask for is printed, and
    the root of its worktree is recorded; trust covers everything below it. For automation, set
    ASYNCAGENTS_TRUST=1.
    """
    from asyncagents.cli.trust_change import add, drop, show_all

    if listing:
        show_all(as_json=as_json)
    elif remove:
        drop(directory, as_json=as_json)
    else:
        add(directory, as_json=as_json)
