"""Prints a session as JSON, or writes sessions to files."""

from pathlib import Path

import click

from asyncagents.app import open_runtime
from asyncagents.archive.write import export_to
from asyncagents.cli.exit import USAGE, Complaint
from asyncagents.cli.screen import one_line

ONE = "without --to exactly one SESSION is required"
HINT = "`asyncagents sessions --all` lists them; with --to DIR all are written"


def nothing(data: Path) -> Complaint:
    return Complaint(
        f"there are no sessions in {data}", hint="choose another data directory with --data-dir", code=USAGE
    )


async def print_document(data: Path, chosen: tuple[str, ...]) -> None:
    if len(chosen) != 1:
        raise Complaint(ONE, hint=HINT, code=USAGE)
    async with open_runtime(data, serve=False) as runtime:
        session = await runtime.find_session(chosen[0])
        click.echo(await runtime.transfer.document(session.id))


async def write_files(data: Path, chosen: tuple[str, ...], target: Path) -> None:
    async with open_runtime(data, serve=False) as runtime:
        sessions = [(await runtime.find_session(each)).id for each in chosen]
        done = await export_to(runtime, target, sessions)
    for trouble in done.troubles:
        click.echo(f"not exported: {trouble.name}: {one_line(trouble.why)}", err=True)
    calls = f", with {_counted(done.calls, 'pending call')}" if done.calls else ""
    click.echo(f"{_counted(done.sessions, 'session')} written to {target}{calls}", err=True)
    if done.troubles:
        raise Complaint(f"not exported: {_counted(len(done.troubles), 'session')}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
