"""`asyncagents why`: explain why a session does not proceed, down to the tasks that it waits for."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, json_option


@click.command()
@click.argument("id")
@json_option
@data_dir_option
def why(*, id: str, as_json: bool, data_dir: Path | None) -> None:
    """Explain why a session or task does not proceed.

    Prints a code and a sentence. If the session waits for tasks, the reason of each task follows. ID may be a
    unique prefix, and `ses_` may be left out.
    """
    import asyncio

    from asyncagents.cli.look import look
    from asyncagents.cli.task_find import unknown
    from asyncagents.cli.why_chain import chain, print_json, print_reasons

    found = asyncio.run(look(data_directory(data_dir), lambda runtime: chain(runtime, id), nothing=None))
    if found is None:
        raise unknown(id)
    print_json(found) if as_json else print_reasons(found)
