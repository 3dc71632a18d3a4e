"""Limits, prices and abilities of models: the shipped catalog, overridden by the config."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.config import ModelConfig, ModelCost, ProviderConfig
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.conversation.session import Tokens
from asyncagents.llm.catalog.data import (
    NO_ENTRY,
    Api,
    ModelFamily,
    PriceNumbers,
    canonical_provider,
    find_entry,
    find_family,
    load_catalog_data,
)

MILLION = 1_000_000
LONG_REQUEST = 200_000


class Price(Struct, frozen=True, kw_only=True):
    """US dollars per million tokens; cached tokens cost as much as input unless they have a price."""

    input: float = 0
    output: float = 0
    cache_read: float | None = None
    cache_write: float | None = None

    def cost_of(self, tokens: Tokens) -> float:
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        total = tokens.input * self.input + (tokens.output + tokens.reasoning) * self.output
        return (total + tokens.cache.read * read + tokens.cache.write * write) / MILLION


class LongPrice(Struct, frozen=True):
    """The price of a request whose input, cached tokens included, exceeds `above` tokens."""

    above: int
    price: Price


class ModelFacts(Struct, frozen=True, kw_only=True):
    """What is known of a model; None means unknown."""

    name: str
    context: int | None = None
    input: int | None = None
    """The most input tokens, where that is less than the context."""
    output: int | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    images: bool | None = None
    pdf: bool | None = None
    temperature: bool | None = None
    """Whether the model accepts a temperature."""
    efforts: tuple[str, ...] = ()
    """The reasoning efforts that the model accepts."""
    thinking: Literal["budget", "adaptive"] = "budget"
    """How thinking is requested from an Anthropic model."""
    api: Api = "chat"
    """Which of OpenAI's two APIs the model needs."""
    price: Price | None = None
    """None: unknown, and counted as 0."""
    long_prices: tuple[LongPrice, ...] = ()
    """In ascending order of `above`."""
    known: bool = True
    """False: neither the catalog nor the config lists the model."""

    def cost(self, tokens: Tokens) -> float:
        sent = tokens.input + tokens.cache.read + tokens.cache.write
        price = self.price
        for long in self.long_prices:
            if sent > long.above:
                price = long.price
        return price.cost_of(tokens) if price is not None else 0.0


class Catalog:
    def __init__(self, providers: Mapping[str, ProviderConfig] | None = None) -> None:
        self._providers = providers or {}
        self._found: dict[tuple[str, str], ModelFacts] = {}

    def find(self, ref: ModelRef) -> ModelFacts:
        key = ref.provider_id, ref.model_id
        if key not in self._found:
            self._found[key] = self._look_up(*key)
        return self._found[key]

    def cost(self, ref: ModelRef, tokens: Tokens) -> float:
        """Return the cost in US dollars; 0 for a model whose price is unknown."""
        return self.find(ref).cost(tokens)

    def model_ids(self, provider_id: str) -> tuple[str, ...]:
        """Return the ids of a provider's models in the shipped catalog."""
        return tuple(load_catalog_data().providers.get(canonical_provider(provider_id), {}))

    def _look_up(self, provider_id: str, model_id: str) -> ModelFacts:
        provider = self._providers.get(provider_id)
        config = provider.models.get(model_id) if provider else None
        own_id = config.id if config and config.id else model_id
        facts = _find_facts(canonical_provider(provider_id), own_id)
        return _with_config(facts, config) if config else facts


def _find_facts(provider_id: str, model_id: str) -> ModelFacts:
    entry = find_entry(provider_id, model_id)
    pattern, family = find_family(provider_id, model_id)
    # A pattern for this provider is newer than the price list; a pattern for a family is not.
    figures = (family.context, entry.context) if "/" in pattern else (entry.context, family.context)
    facts = ModelFacts(
        name=entry.name or model_id,
        **{name: getattr(family, name) for name in ModelFamily.__struct_fields__ if name != "context"},
        context=figures[0] or figures[1],
        known=entry is not NO_ENTRY or bool(pattern),
    )
    if entry.price is None:
        return facts
    long = tuple(LongPrice(int(above or 0), _price(rest)) for above, *rest in entry.above)
    return replace(facts, price=_price(entry.price), long_prices=long)


def _price(numbers: PriceNumbers | list[float | None]) -> Price:
    fresh, written, read, write = (*numbers, None, None, None)[:4]
    return Price(input=fresh or 0, output=written or 0, cache_read=read, cache_write=write)


def _with_config(facts: ModelFacts, config: ModelConfig) -> ModelFacts:
    """Override the facts by what the config sets."""
    overrides = {
        "name": config.name,
        "context": config.limit.context,
        "input": config.limit.input,
        "output": config.limit.output,
        "tools": config.tool_call,
        "reasoning": config.reasoning,
        "images": config.attachment,
        "pdf": config.attachment,
        "temperature": config.temperature,
    }
    facts = replace(
        facts, known=True, **{key: value for key, value in overrides.items() if value is not None}
    )
    if config.cost is None:
        return facts
    long = config.cost.context_over_200k
    return replace(
        facts,
        price=_configured_price(config.cost),
        long_prices=(LongPrice(LONG_REQUEST, _configured_price(long)),) if long else (),
    )


def _configured_price(cost: ModelCost) -> Price:
    return Price(
        input=cost.input, output=cost.output, cache_read=cost.cache_read, cache_write=cost.cache_write
    )
