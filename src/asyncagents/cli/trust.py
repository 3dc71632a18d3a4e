"""`asyncagents trust`: whose files may send, run and read what they name."""

from pathlib import Path

import click

from asyncagents.cli.option import json_option


@click.command()
@click.argument(
    "directory", metavar="[DIR]", type=click.Path(path_type=Path, file_okay=False), default=Path()
)
@click.option("--remove", is_flag=True, help="Trust it no longer.")
@click.option("--list", "listing", is_flag=True, help="List what is trusted, and change nothing.")
@json_option
def trust(*, directory: Path, remove: bool, listing: bool, as_json: bool) -> None:
    """Let the config files of a project count in full.

    Without it they may choose models and be stricter, but name no provider, plugin, server, command or
    file: whoever wrote them could send your keys away. What the project's files ask for is shown, and the
    root of its worktree is recorded; trust covers all that lies below. For automation there is
    ASYNCAGENTS_TRUST=1.
    """
    from asyncagents.cli.trust_change import add, drop, show_all

    if listing:
        show_all(as_json=as_json)
    elif remove:
        drop(directory, as_json=as_json)
    else:
        add(directory, as_json=as_json)
