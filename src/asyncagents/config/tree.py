"""Trees of settings whose values know their origin, and the merging of trees."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

KeyPath: TypeAlias = tuple[str, ...]
DEFAULT = "default"

_PLAIN = re.compile(r"[\w@/*+:-]+")
# Lists of several files are appended at these keys; every other list is replaced.
_APPENDED_LISTS = {("instructions",), ("plugin",), ("pass_environment",)}


class ConfigLeaf(Struct, frozen=True):
    """A value that is not an object; a list is one value."""

    value: Any
    origin: str
    hidden: bool = False

    def __repr__(self) -> str:
        return f"ConfigLeaf({self.visible_value!r}, {self.origin!r})"

    @property
    def visible_value(self) -> Any:
        return "***" if self.hidden and self.value else self.value


Branch: TypeAlias = dict[str, "Tree"]
Tree: TypeAlias = ConfigLeaf | Branch


class EmptyBranch(dict[str, "Tree"]):
    """An object without values, which keeps its own origin."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self.origin = origin


def dotted_path(path: KeyPath) -> str:
    """Join a path, e.g. `provider.openai.models."gpt-4.1"`: a key with a dot is quoted."""
    return ".".join(part if _PLAIN.fullmatch(part) else json.dumps(part, ensure_ascii=False) for part in path)


def build_tree(
    value: dict[str, Any], leaf: Callable[[KeyPath, Any], ConfigLeaf], path: KeyPath = ()
) -> Branch:
    """Build the tree of a parsed object."""
    if not value:
        return EmptyBranch(leaf(path, value).origin)
    return {
        key: build_tree(below, leaf, (*path, key)) if isinstance(below, dict) else leaf((*path, key), below)
        for key, below in value.items()
    }


def plain_values(tree: Tree) -> Any:
    """Return the values of a tree without their origins."""
    return (
        tree.value
        if isinstance(tree, ConfigLeaf)
        else {key: plain_values(below) for key, below in tree.items()}
    )


def leaves(tree: Tree, path: KeyPath = ()) -> Iterator[tuple[KeyPath, ConfigLeaf]]:
    if isinstance(tree, ConfigLeaf):
        yield path, tree
    else:
        for key, below in tree.items():
            yield from leaves(below, (*path, key))


def subtree_at(tree: Tree, path: KeyPath) -> Tree | None:
    for key in path:
        if isinstance(tree, ConfigLeaf) or key not in tree:
            return None
        tree = tree[key]
    return tree


def origin_of(tree: Tree, path: KeyPath) -> str:
    """Return the origin of the value at `path`; for an object, of its last value."""
    found = subtree_at(tree, path)
    if isinstance(found, EmptyBranch):
        return found.origin
    return next((leaf.origin for _, leaf in reversed(list(leaves(found)))), DEFAULT) if found else DEFAULT


def branch(tree: Branch, key: str) -> Branch:
    """Return the object at `key`, or an empty one."""
    below = tree.get(key, {})
    return {} if isinstance(below, ConfigLeaf) else below


def merge_trees(under: Branch, over: Branch, path: KeyPath = ()) -> Branch:
    """Merge two trees: objects merge key by key, any other value of `over` wins.

    Of permissions the last rule that matches wins, so a key of `over` moves behind all keys of `under`.
    """
    merged = dict(under)
    for key, value in over.items():
        below = merged.pop(key, None) if "permission" in path else merged.get(key)
        merged[key] = value if below is None else _merge_values(below, value, (*path, key))
    return merged


def _merge_values(under: Tree, over: Tree, path: KeyPath) -> Tree:
    if isinstance(over, ConfigLeaf):
        if isinstance(under, ConfigLeaf) and path in _APPENDED_LISTS:
            return _append_lists(under, over)
        return over
    if isinstance(under, ConfigLeaf):
        # `"bash": "ask"` under `"bash": {"git *": "allow"}` still asks for other commands.
        return merge_trees({"*": under}, over, path) if "permission" in path else over
    return merge_trees(under, over, path) if over else under or over


def _append_lists(under: ConfigLeaf, over: ConfigLeaf) -> ConfigLeaf:
    """Append a list; an item in both keeps its last position, where a plugin may have other options."""
    again = {_name(item) for item in over.value}
    remaining = [item for item in under.value if _name(item) not in again]
    origin = f"{under.origin}, {over.origin}" if remaining and under.origin != over.origin else over.origin
    return replace(over, value=[*remaining, *over.value], origin=origin, hidden=under.hidden or over.hidden)


def _name(item: Any) -> str:
    return str(item[0] if isinstance(item, list) else item)
