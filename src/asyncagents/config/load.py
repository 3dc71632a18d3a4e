"""Load the configuration of a directory, with the origin of each value."""

from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.config import Config
from asyncagents.config.env import Environment
from asyncagents.config.file.build import build_config, is_valid_key
from asyncagents.config.file.builtin_providers import default_tree
from asyncagents.config.file.shape import ConfigFile
from asyncagents.config.file.source import ConfigSource, read_source, read_untrusted_source
from asyncagents.config.file.untrusted import tighten_rules
from asyncagents.config.paths import ConfigLocation, config_locations, data_folder
from asyncagents.config.tree import (
    DEFAULT,
    Branch,
    ConfigLeaf,
    KeyPath,
    branch,
    dotted_path,
    leaves,
    merge_trees,
    plain_values,
    subtree_at,
)
from asyncagents.config.trust import is_trusted, project_root, untrusted_warning
from asyncagents.config.untrusted_settings import index_untrusted


class LoadedSetting(Struct, frozen=True):
    """One effective value for display; secrets are redacted."""

    key: str
    value: Any
    origin: str
    """The path of a file, `$VARIABLE`, an option, or `default`."""


class ProviderKey(Struct, frozen=True, kw_only=True):
    """Whether a provider has a key; never the key itself."""

    found: bool
    origin: str | None = None
    required: bool
    variables: tuple[str, ...]
    """The variables that are searched."""


class LoadedConfig(Struct, frozen=True, kw_only=True):
    config: Config
    settings: tuple[LoadedSetting, ...]
    """Every effective value, without built-in providers that no file mentions."""
    keys: dict[str, ProviderKey]
    """By provider, built-in and configured ones."""
    warnings: tuple[str, ...]
    distrust: tuple[str, ...]
    """The warnings about settings that are ignored because the project is not trusted."""
    files: tuple[ConfigLocation, ...]
    """Every location that was searched, the strongest last."""
    trusted: bool
    """Whether the project is trusted; if not, only harmless settings of its files apply."""
    tree: Branch
    """All effective values, merged."""

    @property
    def origins(self) -> dict[str, str]:
        return {setting.key: setting.origin for setting in self.settings}


def load_config(environment: Environment, *, directory: Path, data_dir: Path | None = None) -> LoadedConfig:
    """Read all files for `directory`; of an untrusted project, only harmless settings apply.

    Raises `ConfigError` for an invalid setting; dubious ones are warnings.
    """
    looked_at = config_locations(environment, directory)
    trusted = is_trusted(environment, directory)
    sources = _read_sources(looked_at, environment, directory, trusted=trusted)
    tree, left_out = _merge_sources(sources)
    keys, odd_keys = _keys_of_environment(tree, environment)
    tree = merge_trees(tree, keys)
    folder, folder_origin = data_folder(environment, data_dir)
    variables = sorted({name for source in sources for name in source.variables})
    config, odd = build_config(tree, data_dir=folder, variables=tuple(variables))
    root = project_root(environment, directory)
    distrust = untrusted_warning(left_out, root)
    warnings = [warning for source in sources for warning in source.warnings]
    return LoadedConfig(
        config=replace(config, untrusted=index_untrusted(left_out, root), included=_included_files(sources)),
        settings=(LoadedSetting("data_dir", str(folder), folder_origin), *_settings(tree)),
        keys=_provider_keys(tree, config),
        warnings=tuple(dict.fromkeys([*distrust, *warnings, *odd_keys, *odd])),
        distrust=tuple(distrust),
        files=looked_at,
        trusted=trusted,
        tree=tree,
    )


def _read_sources(
    looked_at: tuple[ConfigLocation, ...], environment: Environment, directory: Path, *, trusted: bool
) -> list[ConfigSource]:
    folder = environment.folder(str(directory))
    root = project_root(environment, directory)
    found = [
        read_source(location, environment, folder)
        if trusted or location.scope != "project"
        else read_untrusted_source(location, environment, root)
        for location in looked_at
    ]
    return [source for source in found if source is not None]


def _included_files(sources: list[ConfigSource]) -> dict[str, bool]:
    """Merge the included files; a file is secret if one source takes a secret from it."""
    found: dict[str, bool] = {}
    for source in sources:
        for path, secret in source.included.items():
            found[path] = found.get(path, False) or secret
    return found


def _merge_sources(sources: list[ConfigSource]) -> tuple[Branch, dict[str, list[KeyPath]]]:
    """Merge the sources, untrusted rules last (they only tighten); also return what was left out, by file."""
    tree = default_tree()
    for source in sources:
        tree = merge_trees(tree, source.tree)
    left_out = {source.location.label: list(source.left_out) for source in sources}
    for source in sources:
        for path, rules in source.rules.items():
            tree, weaker = tighten_rules(tree, path, rules)
            left_out[source.location.label] += weaker
    return tree, {label: paths for label, paths in left_out.items() if paths}


def _keys_of_environment(tree: Branch, environment: Environment) -> tuple[Branch, list[str]]:
    """Take keys from variables for providers without one in a file; warn of invalid keys, skip blank ones."""
    keys: Branch = {}
    odd: list[str] = []
    for provider_id, provider in branch(tree, "provider").items():
        entry = plain_values(provider)
        if entry.get("options", {}).get("apiKey", "").strip():
            continue
        named = [name for name in entry.get("env", ()) if environment.get(name).strip()]
        usable = [name for name in named if is_valid_key(environment.get(name).strip())]
        odd += [
            f"${name} holds an invalid character and is ignored: copy the key again"
            for name in named
            if name not in usable
        ]
        if usable:
            key = ConfigLeaf(environment.get(usable[0]), f"${usable[0]}", hidden=True)
            keys[provider_id] = {"options": {"apiKey": key}}
    return {"provider": keys}, odd


def _provider_keys(tree: Branch, config: Config) -> dict[str, ProviderKey]:
    keys = {}
    for provider_id, provider in config.provider.items():
        leaf = subtree_at(tree, ("provider", provider_id, "options", "apiKey"))
        found = provider.api_key is not None and isinstance(leaf, ConfigLeaf)
        keys[provider_id] = ProviderKey(
            found=found,
            origin=leaf.origin if found and isinstance(leaf, ConfigLeaf) else None,
            required=provider.key_required,
            variables=provider.env,
        )
    return keys


def _settings(tree: Branch) -> list[LoadedSetting]:
    """List the values in the order of the file's shape."""
    mentioned = {
        provider_id
        for provider_id, provider in branch(tree, "provider").items()
        if any(leaf.origin != DEFAULT for _, leaf in leaves(provider))
    }
    return [
        LoadedSetting(dotted_path(path), leaf.visible_value, leaf.origin)
        for key in ConfigFile.__struct_encode_fields__
        for path, leaf in leaves(tree.get(key, {}), (key,))
        if key != "provider" or path[1] in mentioned
    ]
