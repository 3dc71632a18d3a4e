"""The shipped catalog file: models by provider, model families, and the lookup by name."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

PROVIDER_ALIASES = {
    "aws": "amazon-bedrock",
    "bedrock": "amazon-bedrock",
    "fireworks": "fireworks-ai",
    "gemini": "google",
    "moonshot": "moonshotai",
    "together": "togetherai",
    "x-ai": "xai",
    "z-ai": "zai",
}
"""Alternative provider names in configs and in `vendor/model`."""
RESELLERS = {
    "azure": ("openai", "anthropic", "deepseek", "xai", "moonshotai"),
    "google-vertex": ("google", "anthropic"),
    "google-vertex-anthropic": ("anthropic",),
    "openrouter": (),
    "vercel": (),
}
"""Resellers and the vendors whose prices apply; an empty list: the vendor is part of the model's name."""

PriceNumbers: TypeAlias = tuple[float | None, ...]
Api: TypeAlias = Literal["chat", "responses", "responses for tools"]


class CatalogEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model at one provider."""

    name: str | None = None
    context: int | None = None
    price: PriceNumbers | None = None
    above: tuple[PriceNumbers, ...] = ()
    also: tuple[str, ...] = ()
    """Alternative names; `*` matches any text."""


class ModelFamily(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What holds for a family of models at every provider."""

    context: int | None = None
    input: int | None = None
    output: int | None = None
    tools: bool | None = None
    reasoning: bool | None = None
    images: bool | None = None
    pdf: bool | None = None
    temperature: bool | None = None
    efforts: tuple[str, ...] = ()
    thinking: Literal["budget", "adaptive"] = "budget"
    api: Api = "chat"


class CatalogData(Struct, frozen=True, kw_only=True):
    """The shipped catalog file, written by scripts/catalog.py."""

    as_of: str
    families: dict[str, ModelFamily]
    providers: dict[str, dict[str, CatalogEntry]]


@cache
def load_catalog_data() -> CatalogData:
    raw = files("asyncagents.llm.catalog").joinpath("catalog.json").read_bytes()
    return msgspec.json.decode(raw, type=CatalogData)


def canonical_provider(provider_id: str) -> str:
    return PROVIDER_ALIASES.get(provider_id.lower(), provider_id.lower())


NO_ENTRY = CatalogEntry()
_WILD = re.compile(r"[*?\[]")
NO_FAMILY = ("", ModelFamily())


def find_entry(provider_id: str, model_id: str) -> CatalogEntry:
    for shelf, name in _candidates(provider_id, model_id.lower()):
        if entry := _match_entry(shelf, name):
            return entry
    base = model_id.removesuffix(":free")
    entry = find_entry(provider_id, base) if base != model_id else NO_ENTRY
    return NO_ENTRY if entry is NO_ENTRY else replace(entry, price=(0, 0), above=())


def _candidates(provider_id: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the providers and names to look under: the provider itself, then the vendors that it resells."""
    free = name.endswith(":free")
    vendor, slash, rest = name.partition("/")
    for spelled in (name, rest, name if free else name.partition(":")[0]):
        yield provider_id, spelled
    for other in RESELLERS.get(provider_id, ()):
        yield other, rest or name
    if slash and provider_id in RESELLERS:
        yield canonical_provider(vendor), rest if free else rest.partition(":")[0]


def _match_entry(provider_id: str, name: str) -> CatalogEntry | None:
    exact, globs = _entries_by_name(provider_id)
    found = exact.get(name) or exact.get(strip_date(name))
    if found is not None:
        return found
    hits = [glob for glob in globs if fnmatchcase(name, glob)]
    return globs[max(hits, key=_specificity)] if hits else None


@cache
def _entries_by_name(provider_id: str) -> tuple[dict[str, CatalogEntry], dict[str, CatalogEntry]]:
    """Return a provider's models by exact name and by glob pattern."""
    exact: dict[str, CatalogEntry] = {}
    globs: dict[str, CatalogEntry] = {}
    for model_id, entry in load_catalog_data().providers.get(provider_id, {}).items():
        exact[model_id.lower()] = entry
        for name in entry.also:
            (globs if "*" in name else exact).setdefault(name, entry)
    return exact, globs


def strip_date(name: str) -> str:
    """Remove a release date or `latest` from the end of a model name."""
    return re.sub(r"[-@](\d{4}-\d{2}-\d{2}|20\d{6}|latest)$", "", name)


def normalize_model_id(model_id: str) -> str:
    """Return the model name that family patterns match, for any provider's spelling.

    `us.anthropic.claude-opus-4-5-20251101-v1:0`, `anthropic/claude-opus-4.5` and `claude-opus-4-5` are one;
    `4p7` of Fireworks becomes `4-7`.
    """
    name = model_id.lower().rpartition("/")[2].partition(":")[0]
    bedrock = re.fullmatch(r"(?:[a-z-]+\.)?[a-z0-9]+\.([a-z].*?)(?:-v\d+)?", name)
    if bedrock:
        name = bedrock[1]
    return re.sub(r"(?<=\d)p(?=\d)", ".", name).replace(".", "-").replace("@", "-")


def find_family(provider_id: str, model_id: str) -> tuple[str, ModelFamily]:
    name = normalize_model_id(model_id)
    _, own = _patterns()
    sold = f"{provider_id}/{name}"
    hits = [
        *_matching_patterns(name),
        *(like for start, like in own if sold.startswith(start) and fnmatchcase(sold, like)),
    ]
    if not hits:
        return NO_FAMILY
    best = max(hits, key=_specificity)
    return best, load_catalog_data().families[best]


@lru_cache(maxsize=4096)
def _matching_patterns(name: str) -> tuple[str, ...]:
    """Return the family patterns that match a name at any provider; cached, as providers share models."""
    general, _ = _patterns()
    return tuple(like for start, like in general if name.startswith(start) and fnmatchcase(name, like))


@cache
def _patterns() -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the patterns of families and those of one provider, each after its literal prefix."""
    pairs = [(_WILD.split(like, maxsplit=1)[0], like) for like in load_catalog_data().families]
    return tuple(each for each in pairs if "/" not in each[1]), tuple(
        each for each in pairs if "/" in each[1]
    )


def _specificity(pattern: str) -> tuple[int, str]:
    """Rank patterns: the one with the most literal characters wins."""
    return len(pattern.replace("*", "")), pattern
