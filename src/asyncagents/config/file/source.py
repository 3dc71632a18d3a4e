"""Read one location: parse, interpolate, check, and build a tree whose values know their origin."""

from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.env import Environment
from asyncagents.config.file import jsonc
from asyncagents.config.file.check import check, meaningless
from asyncagents.config.file.interpolate import Interpolation
from asyncagents.config.file.legacy import modernise
from asyncagents.config.file.redact import is_hidden, is_secret_name
from asyncagents.config.file.untrusted import Sifted, sift, take_rules
from asyncagents.config.paths import Place
from asyncagents.config.text_file import read_text
from asyncagents.config.tree import Branch, KeyPath, Leaf, grow
from asyncagents.errors import ConfigError


class Source(Struct, frozen=True):
    place: Place
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


def read_source(place: Place, environment: Environment, directory: Path) -> Source | None:
    """Read a location; None if it is missing. A relative path in a variable's text starts at `directory`."""
    text = _text(place, environment)
    if text is None:
        return None
    return _source(jsonc.parse(text, place.label), place, environment, directory)


def read_untrusted(place: Place, environment: Environment, root: Path) -> Source | None:
    """Read a file of an untrusted project: only harmless settings, without interpolation."""
    found = sifted(place, root)
    if found is None:
        return None
    source = _source(found.kept, place, environment, root)
    tree, rules = take_rules(source.tree)
    return replace(source, tree=tree, rules=rules, left_out=tuple(path for path, _ in found.left_out))


def sifted(place: Place, root: Path) -> Sifted | None:
    """Parse a project's file and split its settings into harmless ones and others; None without a file."""
    text = read_text(place.path) if place.path else None
    if place.path is None or text is None:
        return None
    return sift(jsonc.parse(text, place.label), place.path.parent, root)


def _source(raw: Any, place: Place, environment: Environment, directory: Path) -> Source:
    folder = place.path.parent if place.path else directory
    filling = Interpolation(environment, folder=folder, label=place.label, skip=meaningless(raw))
    data, warnings = check(
        filling.fill(raw),
        place.label,
        family=place.family,
        secret=lambda path: _is_secret(path, filling.used),
    )
    if "plugin" in data:
        data["plugin"] = [_anchored(plugin, environment, folder) for plugin in data["plugin"]]
    tree = grow(data, lambda path, value: _leaf(path, value, place.label, filling.used))
    return Source(
        place,
        modernise(tree, place.label),
        frozenset(filling.variables),
        (*filling.warnings, *warnings),
        included=filling.files,
    )


def _text(place: Place, environment: Environment) -> str | None:
    if place.path is None:
        return environment.get(place.variable or "")
    text = read_text(place.path)
    if text is None and place.variable:
        raise ConfigError(f"{place.variable} names {place.path}, which does not exist: correct or unset it")
    return text


def _is_secret(path: KeyPath, used: dict[KeyPath, tuple[str, ...]]) -> bool:
    return is_secret_name(path[-1]) or any(path[:length] in used for length in range(1, len(path) + 1))


def _anchored(plugin: Any, environment: Environment, folder: Path) -> Any:
    """Resolve the path of a plugin relative to the file that names the plugin."""
    if isinstance(plugin, list):
        return [_anchored(plugin[0], environment, folder), *plugin[1:]]
    if plugin.startswith(("./", "../", "~/")):
        return str(environment.folder(plugin, base=folder))
    return plugin


def _leaf(path: KeyPath, value: Any, label: str, used: dict[KeyPath, tuple[str, ...]]) -> Leaf:
    tokens = used.get(path, ())
    hidden = is_hidden(path, value) or any(
        token.startswith("{env:") and is_secret_name(token[5:-1]) for token in tokens
    )
    return Leaf(value, f"{label} ({', '.join(tokens)})" if tokens else label, hidden)
