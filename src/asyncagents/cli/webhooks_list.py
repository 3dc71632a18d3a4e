"""Prints outgoing webhooks as a table or JSON, and retries dead ones."""

from collections.abc import Sequence

import click
from msgspec import Struct

from asyncagents.cli.screen import ago, print_table
from asyncagents.config.system import SystemClock
from asyncagents.domain.delivery import Delivery, DeliveryState
from asyncagents.domain.shape import encode
from asyncagents.engine.runtime import Runtime
from asyncagents.errors import Conflict

NONE: tuple[Delivery, ...] = ()


class Wanted(Struct, frozen=True):
    state: DeliveryState | None
    after: str
    limit: int


async def listed(runtime: Runtime, wanted: Wanted, retry: Sequence[str]) -> tuple[Delivery, ...]:
    if retry:
        return await _retried(runtime, tuple(dict.fromkeys(retry)))
    return await runtime.deliveries.list(wanted.state, after=wanted.after, limit=wanted.limit)


async def _retried(runtime: Runtime, ids: tuple[str, ...]) -> tuple[Delivery, ...]:
    """Retry dead webhooks, all or none: each is checked before the first is changed."""
    for each in ids:
        if (await runtime.deliveries.get(each)).state != "dead":
            raise Conflict(f"webhook {each!r} is not dead: only dead webhooks can be retried")
    return tuple([await runtime.deliveries.redeliver(each) for each in ids])


def print_rows(found: Sequence[Delivery], wanted: Wanted) -> None:
    if not found:
        click.echo(f"no webhooks are {wanted.state}" if wanted.state else "no webhooks", err=True)
        return
    now = SystemClock().now()
    print_table([(*_cells(each, now), each.url, each.error or "") for each in found], flexible=4)
    if len(found) == wanted.limit:
        click.echo(f"there may be more: --after {found[-1].id}", err=True)


def _cells(known: Delivery, now: int) -> tuple[str, str, str, str]:
    tries = "1 try" if known.attempts == 1 else f"{known.attempts} tries"
    return known.id, known.state, _when(known, now), tries


def _when(known: Delivery, now: int) -> str:
    if known.time.next is None:
        return ago(known.time.ended or known.time.created, now)
    wait = max(0, known.time.next - now) // 1000
    return "due now" if wait == 0 else f"in {_span(wait)}"


def _span(seconds: int) -> str:
    for size, unit in ((3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def print_json(found: Sequence[Delivery]) -> None:
    click.echo(encode(found))
