"""`asyncagents webhooks`: who was told that a call is settled, who is to be, and who could not be."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, json_option

LIMIT = 100


@click.command()
@click.option("--state", type=click.Choice(["owed", "delivered", "dead"]), help="Only those.")
@click.option("--retry", metavar="ID", multiple=True, help="Try one again that is dead; may be given again.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=LIMIT, show_default=True, help="At most so many."
)
@click.option("--after", metavar="ID", default="", help="Those that come after this one.")
@json_option
@data_dir_option
def webhooks(
    *,
    state: str | None,
    retry: tuple[str, ...],
    limit: int,
    after: str,
    as_json: bool,
    data_dir: Path | None,
) -> None:
    """List webhooks that are owed, delivered or dead.

    They tell others that a call is settled. One that is owed is posted by whoever serves its session: a
    runtime of the library, or `asyncagents run` for its own sessions. One that is dead was given up; its
    error says why, and --retry tries it again.

    With --retry, those are owed again, and only they are listed; if one of the ids is wrong, none is.
    """
    import asyncio
    from typing import cast

    from asyncagents.cli.look import look
    from asyncagents.cli.webhooks_list import NONE, Wanted, listed, print_json, print_rows
    from asyncagents.domain.delivery import DeliveryState
    from asyncagents.errors import NotFound

    wanted = Wanted(cast("DeliveryState | None", state), after, limit)
    found = asyncio.run(
        look(data_directory(data_dir), lambda runtime: listed(runtime, wanted, retry), nothing=NONE)
    )
    if retry and not found:
        raise NotFound("delivery", retry[0])
    print_json(found) if as_json else print_rows(found, wanted)
