"""`asyncagents pending`: calls whose result comes from outside."""

from pathlib import Path
from typing import cast

import click

from asyncagents.cli.option import data_dir_option, data_directory, json_option
from asyncagents.domain.pending_tool import PendingStatus


@click.command()
@click.option("--session", "-s", metavar="ID", help="Of this session and all below it.")
@click.option(
    "--status",
    type=click.Choice(["waiting", "processing", "completed", "failed", "expired"]),
    default="waiting",
    help="How far they are; waiting, unless said otherwise.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=100, help="At most so many; 100.")
@json_option
@data_dir_option
def pending(*, session: str | None, status: str, limit: int, as_json: bool, data_dir: Path | None) -> None:
    """List calls whose result comes from outside, the oldest first.

    Of each: id, since when, how long it is waited for, tool, what is wanted and of whom, what the other side
    calls it, session. `asyncagents submit ID RESULT` gives a result, `asyncagents cancel ID` waits no longer;
    one that asks somebody can be answered with `asyncagents answer` as well.
    """
    import asyncio

    from asyncagents.cli.look import look
    from asyncagents.cli.pending_list import NONE, listed, print_json, print_rows

    known = cast("PendingStatus", status)
    found = asyncio.run(
        look(data_directory(data_dir), lambda runtime: listed(runtime, known, session, limit), nothing=NONE)
    )
    print_json(found) if as_json else print_rows(found, known)
