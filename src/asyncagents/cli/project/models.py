"""`asyncagents models`: list models with limits and prices, and why some cannot be used."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from asyncagents.cli.options import directory_option, json_option, project_folder
from asyncagents.cli.terminal.screen import print_table, short_number
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.roster import ModelChoice, Roster


@click.command()
@click.argument("search", required=False)
@click.option(
    "--all", "everything", is_flag=True, help="Include models that cannot be used, with the reason."
)
@json_option
@directory_option
def models(*, search: str | None, everything: bool, as_json: bool, directory: Path) -> None:
    """List the models that can be used, and why others cannot.

    SEARCH lists only names that contain it, usable or not. Context and output are in tokens, prices in US
    dollars per million tokens of input and of output. Nothing is sent over the network.
    """
    from asyncagents.cli.terminal.screen import plain
    from asyncagents.config.env import system_environment
    from asyncagents.config.load import load_config

    folder = project_folder(directory)
    loaded = load_config(system_environment(), directory=folder)
    for warning in loaded.warnings:
        click.echo(f"warning: {plain(warning)}", err=True)
    roster = Roster(loaded.config)
    found = [
        each
        for each in roster.models()
        if (search or "").lower() in f"{each.ref.provider_id}/{each.ref.model_id}"
    ]
    if as_json:
        print_json(found, roster.default_model())
    else:
        print_list(found, roster, everything=everything or search is not None)


class ModelRow(Struct, frozen=True, kw_only=True):
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


def print_json(found: Sequence[ModelChoice], default: ModelRef | None) -> None:
    click.echo(msgspec.json.encode([_model_row(each, default) for each in found]))


def _model_row(choice: ModelChoice, default: ModelRef | None) -> ModelRow:
    facts, price = choice.facts, choice.facts.price
    return ModelRow(
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


def print_list(found: Sequence[ModelChoice], roster: Roster, *, everything: bool) -> None:
    default = roster.default_model()
    lines = [_model_row(each, default) for each in found if each.available or everything]
    if lines:
        head = ("model", "context", "output", "price", "")
        print_table([head, *(_cells(line) for line in lines)], flexible=4)
    if not found:
        click.echo("no model name matches; `asyncagents models --all` lists all known models", err=True)
    if not lines and found:
        click.echo(f"{roster.default_problem().text}; `asyncagents models --all` lists all known models")
    if not everything:
        _print_others([each for each in found if not each.available], {line.model for line in lines})


def _cells(line: ModelRow) -> tuple[str, ...]:
    unknown = "?"
    price = unknown
    if line.input_price is not None and line.output_price is not None:
        price = f"{line.input_price:g}/{line.output_price:g}"
    remark = "default" if line.default else ""
    return (
        line.model,
        short_number(line.context) if line.context else unknown,
        short_number(line.output) if line.output else unknown,
        price,
        line.why_not or remark,
    )


def _print_others(others: Sequence[ModelChoice], listed: Collection[str]) -> None:
    """Print one line for each provider with unlisted models; "more" if others of it are listed."""
    counts = Counter(each.ref.provider_id for each in others)
    first = {each.ref.provider_id: each.why_not for each in reversed(others)}
    for provider_id, count in counts.items():
        more = " more" if any(name.startswith(f"{provider_id}/") for name in listed) else ""
        click.echo(f"{count}{more} of {provider_id}: {first[provider_id]}", err=True)
