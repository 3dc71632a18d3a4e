"""`asyncagents pending`: list pending calls of async tools."""

from pathlib import Path
from typing import cast

import click

from asyncagents.cli.option import data_dir_option, data_directory, json_option
from asyncagents.domain.pending_tool import PendingStatus


@click.command()
@click.option("--session", "-s", metavar="ID", help="Only this session and all below it.")
@click.option(
    "--status",
    type=click.Choice(["waiting", "processing", "completed", "failed", "expired"]),
    default="waiting",
    help="Only calls in this state; default: waiting.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=100, help="Maximum number; default: 100.")
@json_option
@data_dir_option
def pending(*, session: str | None, status: str, limit: int, as_json: bool, data_dir: Path | None) -> None:
    """List pending calls of async tools, oldest first.

    Columns: id, age, time left, tool, note or question and whom it asks, external reference, session.
    `asyncagents submit ID RESULT` submits a result, `asyncagents cancel ID` cancels the call; a call that
    asks a person can also be answered with `asyncagents answer`.
    """
    import asyncio

    from asyncagents.cli.look import look
    from asyncagents.cli.pending_list import NONE, listed, print_json, print_rows

    known = cast("PendingStatus", status)
    found = asyncio.run(
        look(data_directory(data_dir), lambda runtime: listed(runtime, known, session, limit), nothing=NONE)
    )
    print_json(found) if as_json else print_rows(found, known)
