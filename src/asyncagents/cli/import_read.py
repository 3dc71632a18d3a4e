"""Imports sessions and prints the outcome of each."""

from pathlib import Path

import click

from asyncagents.app import open_runtime
from asyncagents.archive.read import import_from
from asyncagents.archive.trouble import Trouble
from asyncagents.cli.exit import Complaint
from asyncagents.cli.screen import one_line
from asyncagents.engine.transfer import Taken


async def read_files(data: Path, path: Path, directory: Path | None, *, trusted: bool) -> None:
    async with open_runtime(data, serve=False) as runtime:
        done = await import_from(runtime, path, trusted=trusted, directory=directory, heard=_say)
    if done.troubles:
        raise Complaint(f"{len(done.troubles)} not imported", hint="fix the files and import again")


def _say(each: Taken | Trouble) -> None:
    match each:
        case Taken(session=session, outcome=outcome, remarks=remarks):
            click.echo(f"{session.id}  {outcome}  {one_line(session.directory)}  {one_line(session.title)}")
            for remark in remarks:
                click.echo(f"  {one_line(remark)}", err=True)
        case Trouble(name, why):
            click.echo(f"not imported: {one_line(name)}: {one_line(why)}", err=True)
