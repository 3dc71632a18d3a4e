"""Writes src/asyncagents/llm/catalog/catalog.json from genai-prices and our own table of facts.

Run it after an upgrade of genai-prices or a change of catalog_facts.json; the output depends on nothing else.
"""

import re
import sys
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from genai_prices import data as prices
from genai_prices import types as source

from asyncagents.llm.catalog.data import (
    CatalogData,
    CatalogEntry,
    ModelFamily,
    PriceNumbers,
    normalize_model_id,
    strip_date,
)

FACTS = Path(__file__).with_name("catalog_facts.json")
CATALOG = Path(__file__).parent.parent / "src" / "asyncagents" / "llm" / "catalog" / "catalog.json"
UNITS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
# What is sold beside models that chat.
NO_CHAT = re.compile(
    r"embed|tts|whisper|transcri|realtime|moderation|image|imagen|audio|voice|ocr|rerank|guard|dall-e|sora"
    r"|lyria|video|speech|banana|voxtral|orpheus|robotics|sonic|omni|(^|[-/])live|:batch$|computer-use"
)
REGIONS = r"\*?(?:us|eu|au|jp|in|apac|us-gov)\.(?=anthropic|amazon|openai)"


class Facts(msgspec.Struct, frozen=True):
    as_of: date
    providers: dict[str, str]
    families: dict[str, ModelFamily]


def build() -> CatalogData:
    facts = msgspec.json.decode(FACTS.read_bytes(), type=Facts)
    by_id = {provider.id: provider for provider in prices.providers}
    return CatalogData(
        as_of=facts.as_of.isoformat(),
        families={_spelled(like): facts.families[like] for like in sorted(facts.families, key=_spelled)},
        providers={
            ours: entries(by_id[theirs], facts.as_of) for ours, theirs in sorted(facts.providers.items())
        },
    )


def _spelled(like: str) -> str:
    provider, slash, name = like.rpartition("/")
    return provider + slash + normalize_model_id(name)


def entries(provider: source.Provider, as_of: date) -> dict[str, CatalogEntry]:
    models = {model.id: model for model in provider.models if sold_for_chat(provider.id, model, as_of)}
    return {model_id: entry(models[model_id], as_of) for model_id in sorted(models)}


def sold_for_chat(provider_id: str, model: source.ModelInfo, as_of: date) -> bool:
    if NO_CHAT.search(model.id.lower()) or (provider_id == "openrouter" and "/" not in model.id):
        return False
    price = price_on(model, as_of)
    return _at(price.output_mtok, 0) is not None or not vars(price)


def entry(model: source.ModelInfo, as_of: date) -> CatalogEntry:
    price = price_on(model, as_of)
    starts = sorted({tier.start for unit in UNITS for tier in _tiers(getattr(price, unit))})
    return CatalogEntry(
        name=model.name if model.name and model.name.lower() != model.id.lower() else None,
        context=model.context_window,
        price=_numbers(price, 0),
        above=tuple((start, *_numbers(price, start + 1)) for start in starts),
        also=other_names(model),
    )


def other_names(model: source.ModelInfo) -> tuple[str, ...]:
    """Less those that only add a date to a name that is known anyway."""
    all_names = {model.id.lower(), *names(model.match)}
    told = {name for name in all_names if name == strip_date(name) or strip_date(name) not in all_names}
    return tuple(sorted(told - {model.id.lower()}))


def price_on(model: source.ModelInfo, as_of: date) -> source.ModelPrice:
    """The price of that day; of prices that change with the hour, the one that is not bound to any."""
    if isinstance(model.prices, source.ModelPrice):
        return model.prices
    chosen = model.prices[0].prices
    for conditional in model.prices:
        match conditional.constraint:
            case None:
                chosen = conditional.prices
            case source.StartDateConstraint(start_date=start) if start <= as_of:
                chosen = conditional.prices
            case _:
                pass
    return chosen


def _numbers(price: source.ModelPrice, sent: int) -> PriceNumbers:
    numbers = [_at(getattr(price, unit), sent) for unit in UNITS]
    while len(numbers) > 2 and numbers[-1] is None:
        numbers.pop()
    return tuple(number if number is not None or at > 1 else 0 for at, number in enumerate(numbers))


def _at(price: Any, sent: int) -> float | int | None:
    match price:
        case Decimal():
            return int(price) if price == int(price) else float(price)
        case source.TieredPrices():
            reached = [tier.price for tier in price.tiers if sent > tier.start]
            return _at(reached[-1] if reached else price.base, sent)
        case _:
            return None


def _tiers(price: Any) -> list[source.Tier]:
    return price.tiers if isinstance(price, source.TieredPrices) else []


def names(match: Any) -> Iterator[str]:
    """The source's rules as names with stars."""
    match match:
        case source.ClauseOr(or_=clauses):
            yield from chain.from_iterable(map(names, clauses))
        case source.ClauseAnd(and_=clauses):  # a beginning, less some variants that have entries of their own
            yield from names(clauses[0])
        case source.ClauseRegex(regex=pattern):
            if pattern.endswith(r"-\d"):  # all others only allow for a date, which we do ourselves
                yield pattern.removeprefix("^").removesuffix(r"\d").replace("\\", "") + "[0-9]*"
        case _:
            yield _glob(match).lower()


def _glob(match: Any) -> str:
    match match:
        case source.ClauseEquals(equals=text):
            return str(text)
        case source.ClauseStartsWith(starts_with=text):
            return f"{text}*"
        case source.ClauseEndsWith(ends_with=text):
            return _anywhere(f"*{text}")
        case source.ClauseContains(contains=text):
            return _anywhere(f"*{text}*")
        case _:
            raise TypeError(f"a rule that is new to this script: {match}")


def _anywhere(name: str) -> str:
    """Bedrock's names begin with a region, and they cost the same in all of them."""
    return re.sub(REGIONS, "*", name)


def encoded(data: CatalogData) -> bytes:
    """One model a line, so that a difference can be read."""
    lines = [
        "{",
        f'"as_of":{_json(data.as_of)},',
        '"families":{',
        *_lines(data.families),
        "},",
        '"providers":{',
    ]
    for at, (provider, models) in enumerate(data.providers.items(), 1):
        lines += [f"{_json(provider)}:{{", *_lines(models), "}" if at == len(data.providers) else "},"]
    return "\n".join([*lines, "}", "}", ""]).encode()


def _lines(rows: dict[str, CatalogEntry] | dict[str, ModelFamily]) -> list[str]:
    last = len(rows)
    return [f"{_json(key)}:{_json(row)}{',' * (at < last)}" for at, (key, row) in enumerate(rows.items(), 1)]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def main() -> int:
    raw = encoded(build())
    CATALOG.write_bytes(raw)
    print(f"{CATALOG.name}: {len(raw)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
