"""What `asyncagents import` says of what it brought in."""

from pathlib import Path

import click

from asyncagents.app import open_runtime
from asyncagents.archive.read import import_from
from asyncagents.cli.exit import Complaint
from asyncagents.cli.screen import one_line
from asyncagents.engine.transfer import Taken


async def read_files(data: Path, path: Path, directory: Path | None, *, trusted: bool) -> None:
    async with open_runtime(data, serve=False) as runtime:
        done = await import_from(runtime, path, trusted=trusted, directory=directory)
    for taken in done.taken:
        click.echo(_line(taken))
        for remark in taken.remarks:
            click.echo(f"  {one_line(remark)}", err=True)
    for trouble in done.troubles:
        click.echo(f"not imported: {one_line(trouble.name)}: {one_line(trouble.why)}", err=True)
    if done.troubles:
        raise Complaint(
            f"{len(done.troubles)} could not be imported", hint="the others were; import again when mended"
        )


def _line(taken: Taken) -> str:
    session = taken.session
    return f"{session.id}  {taken.outcome}  {one_line(session.directory)}  {one_line(session.title)}"
