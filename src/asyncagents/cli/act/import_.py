"""`asyncagents import`: import sessions from an export, or from OpenCode."""

from pathlib import Path

import click

from asyncagents.app.runtime import open_runtime
from asyncagents.archive.import_ import import_from
from asyncagents.archive.trouble import Trouble
from asyncagents.cli.exit import CliError
from asyncagents.cli.options import data_dir_option, data_directory
from asyncagents.cli.terminal.screen import one_line
from asyncagents.engine.runtime.transfer import ImportedSession


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--into",
    "directory",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Move the sessions to this project directory; else they keep their own.",
)
@click.option(
    "--trust",
    "trusted",
    is_flag=True,
    help="The export is your own: keep the permissions and webhooks of its sessions.",
)
@data_dir_option
def import_(*, path: Path, directory: Path | None, trusted: bool, data_dir: Path | None) -> None:
    """Import exported sessions, also those of OpenCode.

    PATH is a directory that `asyncagents export --to` wrote, a file that `asyncagents export` or `opencode
    export` printed, or the data directory of an OpenCode version that stored files. Sessions that exist
    already are unchanged. Pending calls keep waiting for their result here.
    """
    import asyncio

    from asyncagents.cli.options import project_folder

    where = None if directory is None else project_folder(directory)
    asyncio.run(import_sessions(data_directory(data_dir), path, where, trusted=trusted))


async def import_sessions(data: Path, path: Path, directory: Path | None, *, trusted: bool) -> None:
    async with open_runtime(data, serve=False) as runtime:
        done = await import_from(runtime, path, trusted=trusted, directory=directory, heard=_print_outcome)
    if done.troubles:
        raise CliError(f"{len(done.troubles)} not imported", hint="fix the files and import again")


def _print_outcome(each: ImportedSession | Trouble) -> None:
    match each:
        case ImportedSession(session=session, outcome=outcome, remarks=remarks):
            click.echo(f"{session.id}  {outcome}  {one_line(session.directory)}  {one_line(session.title)}")
            for remark in remarks:
                click.echo(f"  {one_line(remark)}", err=True)
        case Trouble(name, why):
            click.echo(f"not imported: {one_line(name)}: {one_line(why)}", err=True)
