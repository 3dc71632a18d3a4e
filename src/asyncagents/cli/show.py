"""`asyncagents show`: print a session's transcript, or its messages as JSON."""

from pathlib import Path

import click

from asyncagents.cli.option import (
    data_dir_option,
    data_directory,
    directory_option,
    json_option,
    project_folder,
)


@click.command()
@click.argument("session", required=False)
@json_option
@directory_option
@data_dir_option
def show(*, session: str | None, as_json: bool, directory: Path, data_dir: Path | None) -> None:
    """Print the transcript of a session.

    SESSION is an id, or a unique prefix of one; without it, the newest session of the directory is shown.
    With --json the messages are printed as they are stored.
    """
    import asyncio

    from asyncagents.cli.look import look
    from asyncagents.cli.show_transcript import find, no_session, print_json, print_transcript

    where = project_folder(directory)
    found = asyncio.run(
        look(data_directory(data_dir), lambda runtime: find(runtime, session, where), nothing=None)
    )
    if found is None:
        raise no_session(session, where)
    print_json(found) if as_json else print_transcript(found)
