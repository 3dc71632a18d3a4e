"""Built-in providers of `providers.json`: the weakest layer of the configuration."""

from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from asyncagents.config.config import CompactionConfig
from asyncagents.config.tree import DEFAULT, Branch, Leaf


class Known(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    npm: str
    base_url: str | None = None
    """None: the default of the adapter for `npm`."""
    env: list[str]
    """Variables that may hold the key; the first that is set is used."""
    models: tuple[str, ...] = ()
    """Prefixes of its model names, for suggestions."""
    local: bool = False
    """Runs on this machine and usually needs no key."""


@cache
def known_providers() -> dict[str, Known]:
    raw = files(__package__).joinpath("providers.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, Known])


def meant_model(name: str, configured: Mapping[str, Collection[str]]) -> str | None:
    """Complete a model name without a provider, if a provider is known to have the model."""
    name = name.strip("/")
    for provider_id, models in configured.items():
        if name in models:
            return f"{provider_id}/{name}"
    for provider_id, known in known_providers().items():
        if name.startswith(known.models):
            return f"{provider_id}/{name}"
    return None


def defaults() -> Branch:
    """Return the default settings as a tree."""
    compaction = CompactionConfig()
    providers: Branch = {name: _entry(known) for name, known in known_providers().items()}
    return {
        "provider": providers,
        "compaction": {
            "auto": Leaf(compaction.auto, DEFAULT),
            "prune": Leaf(compaction.prune, DEFAULT),
        },
    }


def _entry(known: Known) -> Branch:
    options: Branch = {"baseURL": Leaf(known.base_url, DEFAULT)} if known.base_url else {}
    return {
        "name": Leaf(known.name, DEFAULT),
        "npm": Leaf(known.npm, DEFAULT),
        "env": Leaf(known.env, DEFAULT),
        "options": options,
    }
