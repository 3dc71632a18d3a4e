"""`asyncagents webhooks`: list outgoing webhooks, and retry dead ones."""

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from asyncagents.cli.options import data_dir_option, data_directory, json_option
from asyncagents.cli.terminal.screen import ago, print_table
from asyncagents.config.clock import SystemClock
from asyncagents.domain.call.webhook import Delivery, DeliveryState
from asyncagents.domain.shape import encode
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import Conflict

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

    from asyncagents.cli.lookup import with_runtime
    from asyncagents.errors import NotFound

    query = WebhookQuery(cast("DeliveryState | None", state), after, limit)
    found = asyncio.run(
        with_runtime(
            data_directory(data_dir), lambda runtime: list_webhooks(runtime, query, retry), nothing=NONE
        )
    )
    if retry and not found:
        raise NotFound("delivery", retry[0])
    print_json(found) if as_json else print_rows(found, query)


NONE: tuple[Delivery, ...] = ()


class WebhookQuery(Struct, frozen=True):
    state: DeliveryState | None
    after: str
    limit: int


async def list_webhooks(runtime: Runtime, query: WebhookQuery, retry: Sequence[str]) -> tuple[Delivery, ...]:
    if retry:
        return await _retry_webhooks(runtime, tuple(dict.fromkeys(retry)))
    return await runtime.deliveries.list(query.state, after=query.after, limit=query.limit)


async def _retry_webhooks(runtime: Runtime, ids: tuple[str, ...]) -> tuple[Delivery, ...]:
    """Retry dead webhooks, all or none: each is checked before the first is changed."""
    for each in ids:
        if (await runtime.deliveries.get(each)).state != "dead":
            raise Conflict(f"webhook {each!r} is not dead: only dead webhooks can be retried")
    return tuple([await runtime.deliveries.redeliver(each) for each in ids])


def print_rows(found: Sequence[Delivery], query: WebhookQuery) -> None:
    if not found:
        click.echo(f"no webhooks are {query.state}" if query.state else "no webhooks", err=True)
        return
    now = SystemClock().now()
    print_table([(*_cells(each, now), each.url, each.error or "") for each in found], flexible=4)
    if len(found) == query.limit:
        click.echo(f"there may be more: --after {found[-1].id}", err=True)


def _cells(known_delivery: Delivery, now: int) -> tuple[str, str, str, str]:
    tries = "1 try" if known_delivery.attempts == 1 else f"{known_delivery.attempts} tries"
    return known_delivery.id, known_delivery.state, _when(known_delivery, now), tries


def _when(known_delivery: Delivery, now: int) -> str:
    if known_delivery.time.next is None:
        return ago(known_delivery.time.ended or known_delivery.time.created, now)
    wait = max(0, known_delivery.time.next - now) // 1000
    return "due now" if wait == 0 else f"in {_span(wait)}"


def _span(seconds: int) -> str:
    for size, unit in ((3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def print_json(found: Sequence[Delivery]) -> None:
    click.echo(encode(found))
