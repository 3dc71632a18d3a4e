"""Built-in providers of `providers.json`: the weakest layer of the configuration."""

from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from asyncagents.config.config import CompactionConfig
from asyncagents.config.tree import DEFAULT, Branch, ConfigLeaf


class BuiltinProvider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
def builtin_providers() -> dict[str, BuiltinProvider]:
    raw = files(__package__).joinpath("providers.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, BuiltinProvider])


def suggest_model(name: str, configured: Mapping[str, Collection[str]]) -> str | None:
    """Complete a model name without a provider, if a provider is known to have the model."""
    name = name.strip("/")
    for provider_id, models in configured.items():
        if name in models:
            return f"{provider_id}/{name}"
    for provider_id, known in builtin_providers().items():
        if name.startswith(known.models):
            return f"{provider_id}/{name}"
    return None


def default_tree() -> Branch:
    """Return the default settings as a tree."""
    compaction = CompactionConfig()
    providers: Branch = {name: _provider_entry(known) for name, known in builtin_providers().items()}
    return {
        "provider": providers,
        "compaction": {
            "auto": ConfigLeaf(compaction.auto, DEFAULT),
            "prune": ConfigLeaf(compaction.prune, DEFAULT),
        },
    }


def _provider_entry(known: BuiltinProvider) -> Branch:
    options: Branch = {"baseURL": ConfigLeaf(known.base_url, DEFAULT)} if known.base_url else {}
    return {
        "name": ConfigLeaf(known.name, DEFAULT),
        "npm": ConfigLeaf(known.npm, DEFAULT),
        "env": ConfigLeaf(known.env, DEFAULT),
        "options": options,
    }
