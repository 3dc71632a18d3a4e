"""Read one location: parse, interpolate, check, and build a tree whose values know their origin."""

from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.env import Environment
from asyncagents.config.file import jsonc
from asyncagents.config.file.check import check_data, inert_keys
from asyncagents.config.file.interpolate import Interpolation
from asyncagents.config.file.legacy import modernise
from asyncagents.config.file.redact import is_secret_name, is_secret_value
from asyncagents.config.file.untrusted import FilteredData, filter_untrusted, split_rules
from asyncagents.config.paths import ConfigLocation
from asyncagents.config.text_file import read_text
from asyncagents.config.tree import Branch, ConfigLeaf, KeyPath, build_tree
from asyncagents.errors import ConfigError


class ConfigSource(Struct, frozen=True):
    location: ConfigLocation
    tree: Branch
    variables: frozenset[str]
    """The variables that the file refers to."""
    warnings: tuple[str, ...]
    rules: dict[KeyPath, Branch] = {}
    """Permissions of an untrusted project; they are not in the tree."""
    included: dict[str, bool] = {}
    """The included files, and whether their text is a secret."""
    left_out: tuple[KeyPath, ...] = ()
    """Settings that require trust."""


def read_source(location: ConfigLocation, environment: Environment, directory: Path) -> ConfigSource | None:
    """Read a location; None if it is missing. A relative path in a variable's text starts at `directory`."""
    text = _read_location(location, environment)
    if text is None:
        return None
    return _build_source(jsonc.parse(text, location.label), location, environment, directory)


def read_untrusted_source(
    location: ConfigLocation, environment: Environment, root: Path
) -> ConfigSource | None:
    """Read a file of an untrusted project: only harmless settings, without interpolation."""
    found = read_filtered(location, root)
    if found is None:
        return None
    source = _build_source(found.kept, location, environment, root)
    tree, rules = split_rules(source.tree)
    return replace(source, tree=tree, rules=rules, left_out=tuple(path for path, _ in found.left_out))


def read_filtered(location: ConfigLocation, root: Path) -> FilteredData | None:
    """Parse a project's file and split its settings into harmless ones and others; None without a file."""
    text = read_text(location.path) if location.path else None
    if location.path is None or text is None:
        return None
    return filter_untrusted(jsonc.parse(text, location.label), location.path.parent, root)


def _build_source(
    raw: Any, location: ConfigLocation, environment: Environment, directory: Path
) -> ConfigSource:
    folder = location.path.parent if location.path else directory
    filling = Interpolation(environment, folder=folder, label=location.label, skip=inert_keys(raw))
    data, warnings = check_data(
        filling.fill(raw),
        location.label,
        family=location.family,
        secret=lambda path: _is_secret(path, filling.used),
    )
    if "plugin" in data:
        data["plugin"] = [_resolve_plugin_path(plugin, environment, folder) for plugin in data["plugin"]]
    tree = build_tree(data, lambda path, value: _make_leaf(path, value, location.label, filling.used))
    return ConfigSource(
        location,
        modernise(tree, location.label),
        frozenset(filling.variables),
        (*filling.warnings, *warnings),
        included=filling.files,
    )


def _read_location(location: ConfigLocation, environment: Environment) -> str | None:
    if location.path is None:
        return environment.get(location.variable or "")
    text = read_text(location.path)
    if text is None and location.variable:
        raise ConfigError(
            f"{location.variable} names {location.path}, which does not exist: correct or unset it"
        )
    return text


def _is_secret(path: KeyPath, used: dict[KeyPath, tuple[str, ...]]) -> bool:
    return is_secret_name(path[-1]) or any(path[:length] in used for length in range(1, len(path) + 1))


def _resolve_plugin_path(plugin: Any, environment: Environment, folder: Path) -> Any:
    """Resolve the path of a plugin relative to the file that names the plugin."""
    if isinstance(plugin, list):
        return [_resolve_plugin_path(plugin[0], environment, folder), *plugin[1:]]
    if plugin.startswith(("./", "../", "~/")):
        return str(environment.folder(plugin, base=folder))
    return plugin


def _make_leaf(path: KeyPath, value: Any, label: str, used: dict[KeyPath, tuple[str, ...]]) -> ConfigLeaf:
    tokens = used.get(path, ())
    hidden = is_secret_value(path, value) or any(
        token.startswith("{env:") and is_secret_name(token[5:-1]) for token in tokens
    )
    return ConfigLeaf(value, f"{label} ({', '.join(tokens)})" if tokens else label, hidden)
