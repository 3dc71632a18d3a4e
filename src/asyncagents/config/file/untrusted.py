"""Filter the settings of an untrusted project: nothing that sends, runs or reads anything remains."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct

from asyncagents.config.file.check import inert_keys
from asyncagents.config.file.interpolate import tokens_in
from asyncagents.config.tree import Branch, ConfigLeaf, KeyPath, Tree, branch, leaves, subtree_at

_AGENT_KEYS = {"description", "maxSteps", "mode", "model", "steps", "temperature", "top_p", "variant"}


class FilteredData(Struct, frozen=True):
    kept: Any
    left_out: tuple[tuple[KeyPath, Any], ...]
    """What requires trust, as written."""


def filter_untrusted(data: Any, folder: Path, root: Path) -> FilteredData:
    """Filter one file's data before interpolation; data that is not an object is left to the check."""
    if not isinstance(data, dict):
        return FilteredData(data, ())
    sieve = _Filter(folder, root, inert_keys(data))
    return FilteredData(sieve.filter_file(data), tuple(sieve.left_out))


class _Filter:
    def __init__(self, folder: Path, root: Path, skip: set[KeyPath]) -> None:
        self._folder = folder
        self._root = os.path.realpath(root)
        self._skip = skip
        self.left_out: list[tuple[KeyPath, Any]] = []

    def filter_file(self, data: dict[str, Any]) -> dict[str, Any]:
        return _without_unset({key: self._filter_key(key, value) for key, value in data.items()})

    def _filter_key(self, key: str, value: Any) -> Any:
        match key:
            case "model" | "small_model" | "default_agent":
                return self._filter_values(value, (key,), _has_no_tokens)
            case "permission" | "tools":
                return self._filter_values(value, (key,), _is_strict)
            case "agent" | "mode" if isinstance(value, dict):
                return {name: self._filter_agent(entry, (key, name)) for name, entry in value.items()}
            case "instructions" if isinstance(value, list):
                return self._filter_instructions(value)
            case _:
                # The check drops inert keys, with a warning.
                return value if (key,) in self._skip else self._leave_out_each(key, value)

    def _filter_agent(self, entry: Any, path: KeyPath) -> Any:
        if not isinstance(entry, dict):
            return entry
        return _without_unset(
            {key: self._filter_agent_key(value, (*path, key)) for key, value in entry.items()}
        )

    def _filter_agent_key(self, value: Any, path: KeyPath) -> Any:
        if path in self._skip:
            return UNSET
        if path[-1] in {"permission", "tools"}:
            return self._filter_values(value, path, _is_strict)
        return (
            self._filter_values(value, path, _has_no_tokens)
            if path[-1] in _AGENT_KEYS
            else self._leave_out(path, value)
        )

    def _filter_instructions(self, items: list[Any]) -> list[Any]:
        strange = [item for item in items if isinstance(item, str) and not self._is_inside(item)]
        if strange:
            self._leave_out(("instructions",), strange)
        return [item for item in items if item not in strange]

    def _is_inside(self, item: str) -> bool:
        """Return whether a file or pattern stays in the project, links resolved."""
        path = Path(item)
        if tokens_in(item) or "://" in item or item.startswith("~") or "\0" in item:
            return False
        if path.is_absolute() or ".." in path.parts:
            return False
        real = os.path.realpath(self._folder / path)
        return os.path.commonpath([real, self._root]) == self._root

    def _filter_values(self, value: Any, path: KeyPath, harmless: Callable[[Any], bool]) -> Any:
        if isinstance(value, dict):
            return _without_unset(
                {key: self._filter_values(below, (*path, key), harmless) for key, below in value.items()}
            )
        return value if harmless(value) else self._leave_out(path, value)

    def _leave_out_each(self, key: str, value: Any) -> Any:
        """Leave out each entry by name, as in `provider.x`."""
        for name, below in value.items() if isinstance(value, dict) else ():
            self._leave_out((key, name), below)
        return UNSET if isinstance(value, dict) else self._leave_out((key,), value)

    def _leave_out(self, path: KeyPath, value: Any) -> Any:
        self.left_out.append((path, value))
        return UNSET


def _has_no_tokens(value: Any) -> bool:
    return not tokens_in(value)


def _is_strict(value: Any) -> bool:
    """Return whether a value of `permission`, or of its old form `tools`, does not allow anything."""
    return value not in ("allow", True) and not tokens_in(value)


def _without_unset(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if value is not UNSET}


def split_rules(tree: Branch) -> tuple[Branch, dict[KeyPath, Branch]]:
    """Split a tree into the tree without permissions, and the permissions by path."""
    rest = {key: value for key, value in tree.items() if key != "permission"}
    rules: dict[KeyPath, Branch] = {("permission",): branch(tree, "permission")}
    agents: Branch = {}
    for name in branch(tree, "agent"):
        agent = branch(branch(tree, "agent"), name)
        agents[name] = {key: value for key, value in agent.items() if key != "permission"}
        rules["agent", name, "permission"] = branch(agent, "permission")
    return rest | {"agent": agents}, {path: found for path, found in rules.items() if found}


def tighten_rules(tree: Branch, path: KeyPath, rules: Branch) -> tuple[Branch, list[KeyPath]]:
    """Merge the rules at `path`; returns the tree, and the paths of rules that would have weakened it."""
    own = _at(tree, path)
    denies = any(
        leaf.value == "deny" for each in (own, branch(tree, "permission")) for _, leaf in leaves(each)
    )
    result, weaker = dict(own), []
    for permission, wanted in rules.items():
        patterns = _patterns(result.get(permission, {}))
        for pattern, leaf in _patterns(wanted).items():
            if _is_stricter(leaf, patterns.get(pattern), denies=denies):
                patterns[pattern] = leaf
            else:
                weaker.append((*path, permission, pattern))
        if patterns:
            result[permission] = patterns
    return _put(tree, path, result), weaker


def _is_stricter(wanted: Tree, own: Tree | None, *, denies: bool) -> bool:
    if not isinstance(wanted, ConfigLeaf) or wanted.value == "deny":
        return True
    if isinstance(own, ConfigLeaf):
        return bool(own.value != "deny")
    return not denies


def _patterns(rules: Tree) -> Branch:
    return {"*": rules} if isinstance(rules, ConfigLeaf) else dict(rules)


def _at(tree: Branch, path: KeyPath) -> Branch:
    found = subtree_at(tree, path)
    return {} if found is None or isinstance(found, ConfigLeaf) else found


def _put(tree: Branch, path: KeyPath, value: Branch) -> Branch:
    key, *rest = path
    return tree | {key: _put(branch(tree, key), tuple(rest), value) if rest else value}
