"""Prints models as a table or JSON."""

from collections import Counter
from collections.abc import Collection, Sequence

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.screen import print_table, short
from asyncagents.domain.message import ModelRef
from asyncagents.engine.voice import NO_MODEL
from asyncagents.llm.roster import Choice


class Line(Struct, frozen=True, kw_only=True):
    """A model as `--json` prints it; prices in US dollars per million tokens, None if unknown."""

    model: str
    name: str
    context: int | None
    output: int | None
    input_price: float | None
    output_price: float | None
    default: bool
    available: bool
    why_not: str | None


def print_json(found: Sequence[Choice], default: ModelRef | None) -> None:
    click.echo(msgspec.json.encode([_line(each, default) for each in found]))


def _line(choice: Choice, default: ModelRef | None) -> Line:
    facts, price = choice.facts, choice.facts.price
    return Line(
        model=f"{choice.ref.provider_id}/{choice.ref.model_id}",
        name=facts.name,
        context=facts.context,
        output=facts.output,
        input_price=price.input if price else None,
        output_price=price.output if price else None,
        default=choice.ref == default,
        available=choice.available,
        why_not=choice.why_not,
    )


def print_list(found: Sequence[Choice], default: ModelRef | None, *, everything: bool) -> None:
    lines = [_line(each, default) for each in found if each.available or everything]
    if lines:
        head = ("model", "context", "output", "price", "")
        print_table([head, *(_row(line) for line in lines)], flexible=4)
    if not found:
        click.echo("no model name matches; `asyncagents models --all` lists all known models", err=True)
    if not lines and found:
        click.echo(f"{NO_MODEL}; `asyncagents models --all` lists all known models")
    if not everything:
        _print_others([each for each in found if not each.available], {line.model for line in lines})


def _row(line: Line) -> tuple[str, ...]:
    unknown = "?"
    price = unknown
    if line.input_price is not None and line.output_price is not None:
        price = f"{line.input_price:g}/{line.output_price:g}"
    remark = "default" if line.default else ""
    return (
        line.model,
        short(line.context) if line.context else unknown,
        short(line.output) if line.output else unknown,
        price,
        line.why_not or remark,
    )


def _print_others(others: Sequence[Choice], listed: Collection[str]) -> None:
    """Print one line for each provider with unlisted models; "more" if others of it are listed."""
    counts = Counter(each.ref.provider_id for each in others)
    first = {each.ref.provider_id: each.why_not for each in reversed(others)}
    for provider_id, count in counts.items():
        more = " more" if any(name.startswith(f"{provider_id}/") for name in listed) else ""
        click.echo(f"{count}{more} of {provider_id}: {first[provider_id]}", err=True)
