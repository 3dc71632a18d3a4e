"""`asyncagents webhooks`: list outgoing webhooks, and retry dead ones."""

from pathlib import Path

import click

from asyncagents.cli.option import data_dir_option, data_directory, json_option

LIMIT = 100


@click.command()
@click.option(
    "--state", type=click.Choice(["owed", "delivered", "dead"]), help="Only webhooks in this state."
)
@click.option("--retry", metavar="ID", multiple=True, help="Retry this dead webhook; repeatable.")
@click.option(
    "--limit", type=click.IntRange(1, 1_000), default=LIMIT, show_default=True, help="Maximum number."
)
@click.option("--after", metavar="ID", default="", help="Only webhooks after this one.")
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
    """List outgoing webhooks that are owed, delivered or dead.

    A webhook reports that a call is settled. An owed one is posted by the process that serves its session: a
    server, a worker, a runtime of the library, or `asyncagents run` for its own sessions. A dead one was
    given up; its error says why, and --retry tries it again.

    With --retry, these webhooks are owed again, and only they are listed; if one of the ids is wrong, none
    is retried.
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
