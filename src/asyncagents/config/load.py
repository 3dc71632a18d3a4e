"""The door of this room: everything an operator set, as one value, and where each piece came from."""

from pathlib import Path
from typing import Any

from msgspec import Struct

from asyncagents.config.config import Config
from asyncagents.config.env import Environment
from asyncagents.config.known import defaults
from asyncagents.config.place import Place, data_folder, places
from asyncagents.config.read import read_config
from asyncagents.config.shape import ConfigFile
from asyncagents.config.source import read_source
from asyncagents.config.tree import DEFAULT, Branch, Leaf, at, branch, dotted, lay, leaves, plain


class Setting(Struct, frozen=True):
    """One value as it may be shown: a secret is stars."""

    key: str
    value: Any
    origin: str
    """The path of a file, `$VARIABLE`, an option, or `default`."""


class ProviderKey(Struct, frozen=True, kw_only=True):
    """Whether a provider has a key; never the key."""

    found: bool
    origin: str | None = None
    required: bool
    variables: tuple[str, ...]
    """Where one is looked for."""


class Loaded(Struct, frozen=True, kw_only=True):
    config: Config
    settings: tuple[Setting, ...]
    """Every value that counts; a known provider that nothing mentions is left out."""
    keys: dict[str, ProviderKey]
    """By provider, known ones and configured ones."""
    warnings: tuple[str, ...]
    files: tuple[Place, ...]
    """Every place that was looked at, the strongest last."""

    @property
    def origins(self) -> dict[str, str]:
        return {setting.key: setting.origin for setting in self.settings}


def load(
    environment: Environment, *, directory: Path, data_dir: Path | None = None, project: bool = True
) -> Loaded:
    """Read all files for `directory`; with `project=False`, as for one that is not trusted, none of its own.

    Raises `ConfigError` for what cannot be used; what is merely odd is a warning.
    """
    looked_at = places(environment, directory, project=project)
    found = [read_source(place, environment, environment.folder(str(directory))) for place in looked_at]
    sources = [source for source in found if source is not None]
    tree = defaults()
    for source in sources:
        tree = lay(tree, source.tree)
    tree = lay(tree, _keys_of_environment(tree, environment))
    folder, folder_origin = data_folder(environment, data_dir)
    variables = sorted({name for source in sources for name in source.variables})
    config, odd = read_config(tree, data_dir=folder, variables=tuple(variables))
    warnings = [warning for source in sources for warning in source.warnings]
    return Loaded(
        config=config,
        settings=(Setting("data_dir", str(folder), folder_origin), *_settings(tree)),
        keys=_keys(tree, config),
        warnings=tuple(dict.fromkeys([*warnings, *odd])),
        files=looked_at,
    )


def _keys_of_environment(tree: Branch, environment: Environment) -> Branch:
    """A key for each provider that no file gives one to; an empty one counts as none."""
    keys: Branch = {}
    for provider_id, provider in branch(tree, "provider").items():
        entry = plain(provider)
        if entry.get("options", {}).get("apiKey", "").strip():
            continue
        name = next((name for name in entry.get("env", ()) if environment.get(name).strip()), None)
        if name is not None:
            key = Leaf(environment.get(name), f"${name}", hidden=True)
            keys[provider_id] = {"options": {"apiKey": key}}
    return {"provider": keys}


def _keys(tree: Branch, config: Config) -> dict[str, ProviderKey]:
    keys = {}
    for provider_id, provider in config.provider.items():
        leaf = at(tree, ("provider", provider_id, "options", "apiKey"))
        found = provider.api_key is not None and isinstance(leaf, Leaf)
        keys[provider_id] = ProviderKey(
            found=found,
            origin=leaf.origin if found and isinstance(leaf, Leaf) else None,
            required=provider.key_required,
            variables=provider.env,
        )
    return keys


def _settings(tree: Branch) -> list[Setting]:
    """In the order of the file's shape."""
    mentioned = {
        provider_id
        for provider_id, provider in branch(tree, "provider").items()
        if any(leaf.origin != DEFAULT for _, leaf in leaves(provider))
    }
    return [
        Setting(dotted(path), leaf.shown, leaf.origin)
        for key in ConfigFile.__struct_encode_fields__
        for path, leaf in leaves(tree.get(key, {}), (key,))
        if key != "provider" or path[1] in mentioned
    ]
