"""Providers and models in OpenCode's shapes, without secrets."""

from typing import Any, Literal

from msgspec import field

from asyncagents.config.config import ModelConfig, ProviderConfig
from asyncagents.config.env import Environment
from asyncagents.config.file.builtin_providers import builtin_providers
from asyncagents.config.file.redact import is_secret_value
from asyncagents.domain.conversation.message import ModelRef
from asyncagents.domain.shape import Shape
from asyncagents.domain.window import Window
from asyncagents.llm.catalog.catalog import ModelFacts, Price
from asyncagents.llm.catalog.options import variants
from asyncagents.llm.wire.choose import COMPATIBLE, PACKAGES, wire_of

UNKNOWN_NPM = "asyncagents"
"""`npm` of a model that no npm package supports."""


class ModelApi(Shape, frozen=True, kw_only=True):
    id: str
    url: str
    npm: str


class MediaKinds(Shape, frozen=True, kw_only=True):
    text: bool
    audio: bool
    image: bool
    video: bool
    pdf: bool


class ModelCapabilities(Shape, frozen=True, kw_only=True):
    temperature: bool
    reasoning: bool
    attachment: bool
    toolcall: bool
    input: MediaKinds
    output: MediaKinds
    interleaved: bool


class CacheCost(Shape, frozen=True, kw_only=True):
    read: float
    write: float


class PriceTier(Shape, frozen=True, kw_only=True):
    type: Literal["context"]
    size: int


class TierCost(Shape, frozen=True, kw_only=True):
    input: float
    output: float
    cache: CacheCost
    tier: PriceTier


class ModelPrice(Shape, frozen=True, kw_only=True):
    """US dollars per million tokens; 0 also if the price is unknown."""

    input: float
    output: float
    cache: CacheCost
    tiers: tuple[TierCost, ...] | None = None


class ModelBounds(Shape, frozen=True, kw_only=True):
    """In tokens; 0: unknown."""

    context: int
    output: int
    input: int | None = None


class ModelInfo(Shape, frozen=True, kw_only=True):
    id: str
    provider_id: str
    api: ModelApi
    name: str
    family: str
    capabilities: ModelCapabilities
    cost: ModelPrice
    limit: ModelBounds
    status: Literal["active"]
    options: dict[str, Any]
    headers: dict[str, str]
    """Always empty: headers may contain a key."""
    variants: dict[str, dict[str, Any]]
    release_date: str = field(name="release_date")


class ProviderInfo(Shape, frozen=True, kw_only=True):
    """A provider, without its key."""

    id: str
    name: str
    source: Literal["env", "config", "custom", "api"]
    env: tuple[str, ...]
    options: dict[str, Any]
    models: dict[str, ModelInfo]


def provider_info(provider_id: str, config: ProviderConfig, environment: Environment) -> ProviderInfo:
    """Describe a provider, without its models."""
    return ProviderInfo(
        id=provider_id,
        name=config.name or provider_id,
        source=_source(provider_id, config, environment),
        env=config.env,
        options=_options(provider_id, config),
        models={},
    )


def model_info(ref: ModelRef, facts: ModelFacts, provider: ProviderConfig) -> ModelInfo:
    config = provider.models.get(ref.model_id, ModelConfig())
    npm = provider.npm or PACKAGES.get(ref.provider_id, COMPATIBLE)
    wire = wire_of(npm)
    return ModelInfo(
        id=ref.model_id,
        provider_id=ref.provider_id,
        api=ModelApi(
            id=config.id or ref.model_id,
            url=_redact_url(provider.base_url or (wire.base_url if wire else None) or ""),
            npm=npm,
        ),
        name=facts.name,
        family="",
        capabilities=_capabilities(facts),
        cost=_cost(facts),
        limit=ModelBounds(context=facts.context or 0, output=facts.output or 0, input=facts.input),
        status="active",
        options=visible_options(config.options),
        headers={},
        release_date="",
        variants={name: visible_options(body) for name, body in variants(facts, config.variants).items()},
    )


def custom_provider(ref: ModelRef, window: Window) -> ProviderInfo:
    """Describe the provider of a model that a program passed in; only its name and window are known."""
    facts = ModelFacts(
        name=ref.model_id, context=window.context, input=window.input, output=window.output, images=True
    )
    found = model_info(ref, facts, ProviderConfig(npm=UNKNOWN_NPM))
    return ProviderInfo(
        id=ref.provider_id,
        name=ref.provider_id,
        source="custom",
        env=(),
        options={},
        models={ref.model_id: found},
    )


def visible_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove options that may hold secrets."""
    return {key: value for key, value in options.items() if not is_secret_value(("options", key), value)}


def _source(
    provider_id: str, config: ProviderConfig, environment: Environment
) -> Literal["env", "config", "custom"]:
    """Return where the provider is configured, as far as that is still known."""
    if config.models or provider_id not in {*builtin_providers(), *PACKAGES}:
        return "config"
    if config.api_key is None:
        return "custom"
    return "env" if any(environment.get(name).strip() for name in config.env) else "config"


def _options(provider_id: str, config: ProviderConfig) -> dict[str, Any]:
    address = {"baseURL": _redact_url(config.base_url)} if config.base_url else {}
    return {**address, **visible_options(config.options)}


def _redact_url(url: str) -> str:
    return "***" if is_secret_value(("url",), url) else url


def _capabilities(facts: ModelFacts) -> ModelCapabilities:
    """Convert capabilities; unknown ones count as supported, so that clients may try them."""
    words = MediaKinds(text=True, audio=False, image=False, video=False, pdf=False)
    image, pdf = facts.images is not False, facts.pdf is not False
    return ModelCapabilities(
        temperature=facts.temperature is not False,
        reasoning=bool(facts.reasoning),
        attachment=image or pdf,
        toolcall=facts.tools is not False,
        input=MediaKinds(text=True, audio=False, image=image, video=False, pdf=pdf),
        output=words,
        interleaved=False,
    )


def _cost(facts: ModelFacts) -> ModelPrice:
    price = facts.price or Price()
    tiers = tuple(
        TierCost(
            input=long.price.input,
            output=long.price.output,
            cache=_cache(long.price),
            tier=PriceTier(type="context", size=long.above),
        )
        for long in facts.long_prices
    )
    return ModelPrice(input=price.input, output=price.output, cache=_cache(price), tiers=tiers or None)


def _cache(price: Price) -> CacheCost:
    """Return the cache prices; the default is the input price."""
    read = price.input if price.cache_read is None else price.cache_read
    return CacheCost(read=read, write=price.input if price.cache_write is None else price.cache_write)
