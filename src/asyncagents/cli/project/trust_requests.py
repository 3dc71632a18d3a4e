"""Lists what a project's files ask for that needs trust: in a few lines by kind, or each setting in full."""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from asyncagents.config.env import Environment
from asyncagents.config.file.builtin_providers import builtin_providers
from asyncagents.config.file.interpolate import tokens_in
from asyncagents.config.file.redact import is_secret_value
from asyncagents.config.file.source import read_filtered
from asyncagents.config.file.untrusted import FilteredData
from asyncagents.config.markdown.agents import (
    DefinitionKind,
    definition_folders,
    markdown_files,
    trusted_folders,
)
from asyncagents.config.paths import ConfigLocation, config_locations
from asyncagents.config.tree import ConfigLeaf, KeyPath, build_tree, dotted_path, leaves
from asyncagents.plugins.find import project_files

MOST_OF_A_KIND = 4
MAX_CHARS = 160
KINDS = ("model", "provider", "mcp", "plugin", "tool", "allow", "reads", "agent", "command", "skill", "other")

RequestKind: TypeAlias = Literal[
    "model", "provider", "mcp", "plugin", "tool", "allow", "reads", "agent", "command", "skill", "other"
]


class TrustSetting(Struct, frozen=True):
    """One setting that needs trust; secrets are masked, and variables are not expanded."""

    file: str
    key: str
    value: Any


class TrustRequest(Struct, frozen=True):
    """One thing that a project asks for, in words; the text is untrusted input."""

    kind: RequestKind
    text: str


def settings_needing_trust(environment: Environment, directory: Path, root: Path) -> Iterator[TrustSetting]:
    """Yield every setting and file that applies only in a trusted project."""
    for kind in ("plugins", "tools"):
        for file in project_files(environment, directory, kind):
            yield TrustSetting(str(file), kind, "Python, run by every session here")
    for location, found in _project_configs(environment, directory, root):
        for top, value in found.left_out:
            for path, leaf in _leaves(top, value):
                shown = "***" if is_secret_value(path, leaf) else leaf
                yield TrustSetting(location.label, dotted_path(path), shown)


def trust_requests(environment: Environment, directory: Path, root: Path) -> list[TrustRequest]:
    """Describe what the project asks for, without duplicates, sorted by kind."""
    found = [*_file_requests(environment, directory, root)]
    for _, each in _project_configs(environment, directory, root):
        found += _config_requests(each)
    return sorted(dict.fromkeys(found), key=lambda wish: KINDS.index(wish.kind))


def request_lines(found: Sequence[TrustRequest], *, whole: bool = False) -> tuple[list[str], bool]:
    """Render a line for each request, a few of each kind and a count; also return whether any was cut."""
    lines: list[str] = []
    cut = False
    for kind, group in groupby(found, key=lambda wish: wish.kind):
        texts = [escape_unprintable(wish.text) for wish in group]
        shown = texts if whole else texts[:MOST_OF_A_KIND]
        for number, text in enumerate(shown):
            short = whole or len(text) <= MAX_CHARS
            cut = cut or not short
            words = text if short else f"{text[:MAX_CHARS]}… ({len(text)} characters)"
            lines.append(f"  {'' if number else kind:<10}{words}")
        if len(texts) > len(shown):
            cut = True
            lines.append(f"  {'':<10}… and {len(texts) - len(shown)} more")
    return lines, cut


def escape_unprintable(text: str) -> str:
    """Escape unprintable and bidirectional characters, such as `\\x1b`, for a terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode()
        for letter in text
    )


def _project_configs(
    environment: Environment, directory: Path, root: Path
) -> Iterator[tuple[ConfigLocation, FilteredData]]:
    for location in config_locations(environment, directory):
        found = read_filtered(location, root) if location.scope == "project" else None
        if found is not None:
            yield location, found


def _leaves(top: KeyPath, value: Any) -> Iterator[tuple[KeyPath, Any]]:
    for path, leaf in leaves(build_tree({"": value}, lambda path, below: ConfigLeaf(below, ""))):
        yield (*top, *path[1:]), leaf.value


def _config_requests(found: FilteredData) -> Iterator[TrustRequest]:
    settings = found.kept if isinstance(found.kept, dict) else {}
    for key in ("model", "small_model"):
        if settings.get(key):
            yield TrustRequest("model", _text(settings[key]))
    for path, value in found.left_out:
        yield from _key_requests(path, value)
        for below, leaf in _leaves(path, value):
            for token in _tokens(leaf):
                yield TrustRequest("reads", f"{token} for {dotted_path(below)}")


def _key_requests(path: KeyPath, value: Any) -> Iterator[TrustRequest]:
    entry = value if isinstance(value, dict) else {}
    match path:
        case ("provider", name):
            yield TrustRequest("provider", _provider_text(name, entry))
        case ("mcp", name):
            yield TrustRequest("mcp", _mcp_text(name, entry))
        case ("plugin", *_) if isinstance(value, list):
            for each in value:
                yield TrustRequest("plugin", _text(each[0] if isinstance(each, list) and each else each))
        case ("permission" | "tools", *rule):
            yield TrustRequest("allow", ": ".join(rule) or "everything")
        case ("agent" | "mode", name, "permission" | "tools", *rule):
            yield TrustRequest("allow", f"{': '.join(rule) or 'everything'}, to the agent {name}")
        case ("agent" | "command" as kind, name, *rest):
            yield TrustRequest(kind, f"{name}.{'.'.join(rest)}" if rest else name)
        case _:
            yield TrustRequest("other", dotted_path(path[:2]))


def _provider_text(name: str, entry: dict[str, Any]) -> str:
    """Describe where requests would go, and with which of the user's keys."""
    options = entry.get("options")
    url = options.get("baseURL") if isinstance(options, dict) else None
    known = builtin_providers().get(name)
    keys = entry.get("env") or (known.env if known else [])
    sent = f", sent the key {', '.join(map(_text, keys))}" if keys and isinstance(keys, list) else ""
    if url is not None:
        return f"{name} at {_url_text(url)}{sent}"
    return f"{name}{sent}"


def _mcp_text(name: str, entry: dict[str, Any]) -> str:
    command = entry.get("command")
    if isinstance(command, list):
        return f"{name} runs {shlex.join(map(_text, command))}"
    return f"{name} at {_url_text(entry['url'])}" if "url" in entry else f"{name} {_text(entry or '')}"


def _url_text(url: Any) -> str:
    """Escape non-ASCII lookalike letters, and hide the query, which may hold a key."""
    address, mark, _ = _text(url).partition("?")
    return ascii(address)[1:-1] + ("?…" if mark else "")


def _tokens(value: Any) -> list[str]:
    if isinstance(value, list):
        return [token for each in value for token in _tokens(each)]
    if isinstance(value, dict):
        return [token for each in value.values() for token in _tokens(each)]
    return tokens_in(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _file_requests(environment: Environment, directory: Path, root: Path) -> Iterator[TrustRequest]:
    for kind in ("plugins", "tools"):
        for file in project_files(environment, directory, kind):
            yield TrustRequest("plugin" if kind == "plugins" else "tool", f"runs {_relative(file, root)}")
    definitions: tuple[DefinitionKind, ...] = ("agent", "command", "skill")
    for definition in definitions:
        only = "SKILL.md" if definition == "skill" else None
        folders = definition_folders(environment, directory, definition)
        for folder in trusted_folders(folders, trusted=False)[1]:
            for path in markdown_files(folder.path, [], only=only):
                yield TrustRequest(definition, _relative(path, root))


def _relative(path: Path, root: Path) -> str:
    return os.path.relpath(path, root)
