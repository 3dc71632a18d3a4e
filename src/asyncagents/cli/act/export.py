"""`asyncagents export`: write sessions as JSON, for another machine or a backup."""

from pathlib import Path

import click

from asyncagents.app.runtime import open_runtime
from asyncagents.archive.export import export_to
from asyncagents.cli.exit import USAGE, CliError
from asyncagents.cli.lookup import is_empty
from asyncagents.cli.options import data_dir_option, data_directory
from asyncagents.cli.terminal.screen import one_line


@click.command()
@click.argument("sessions", metavar="[SESSION]...", nargs=-1)
@click.option(
    "--to",
    "target",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write files below this directory, which must be new or empty.",
)
@data_dir_option
def export(*, sessions: tuple[str, ...], target: Path | None, data_dir: Path | None) -> None:
    """Write sessions as JSON, for a backup or another machine.

    SESSION is an id, or a unique prefix of one. With --to, each is written with all sessions below it;
    without SESSION, all sessions are. Without --to, one session is printed, in the form of `opencode export`.
    Secrets are never written.
    """
    import asyncio

    data = data_directory(data_dir)
    if is_empty(data):
        raise no_sessions(data)
    asyncio.run(print_document(data, sessions) if target is None else write_files(data, sessions, target))


ONE_SESSION = "without --to exactly one SESSION is required"
HINT = "`asyncagents sessions --all` lists them; with --to DIR all are written"


def no_sessions(data: Path) -> CliError:
    return CliError(
        f"there are no sessions in {data}", hint="choose another data directory with --data-dir", code=USAGE
    )


async def print_document(data: Path, chosen: tuple[str, ...]) -> None:
    if len(chosen) != 1:
        raise CliError(ONE_SESSION, hint=HINT, code=USAGE)
    async with open_runtime(data, serve=False) as runtime:
        session = await runtime.find_session(chosen[0])
        click.echo(await runtime.transfer.document(session.id))


async def write_files(data: Path, chosen: tuple[str, ...], target: Path) -> None:
    async with open_runtime(data, serve=False) as runtime:
        sessions = [(await runtime.find_session(each)).id for each in chosen]
        done = await export_to(runtime, target, sessions)
    for trouble in done.troubles:
        click.echo(f"not exported: {trouble.name}: {one_line(trouble.why)}", err=True)
    calls = f", with {_count_text(done.calls, 'pending call')}" if done.calls else ""
    click.echo(f"{_count_text(done.sessions, 'session')} written to {target}{calls}", err=True)
    if done.troubles:
        raise CliError(f"not exported: {_count_text(len(done.troubles), 'session')}")


def _count_text(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
