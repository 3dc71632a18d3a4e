"""`asyncagents task`: show one task in full."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, json_option


@click.command()
@click.argument("id")
@json_option
@data_dir_option
def task(*, id: str, as_json: bool, data_dir: Path | None) -> None:
    """Show one task in full: its state, its result, its own tasks.

    ID may be a unique prefix, and `ses_` may be left out. `asyncagents show ID` prints its transcript.
    """
    import asyncio

    from asyncagents.cli.look import look
    from asyncagents.cli.task_find import unknown
    from asyncagents.cli.task_show import print_json, print_task, whole

    found = asyncio.run(look(data_directory(data_dir), lambda runtime: whole(runtime, id), nothing=None))
    if found is None:
        raise unknown(id)
    print_json(found) if as_json else print_task(found)
