"""Values that know where they came from, and how one file's are laid over another's."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

KeyPath: TypeAlias = tuple[str, ...]
DEFAULT = "default"

_PLAIN = re.compile(r"[\w@/*+:-]+")
# These lists grow from file to file; every other list is replaced.
_GROWING = {("instructions",), ("plugin",), ("pass_environment",)}


class Leaf(Struct, frozen=True):
    """A value that is no object, or a list as a whole."""

    value: Any
    origin: str
    hidden: bool = False

    def __repr__(self) -> str:
        return f"Leaf({self.shown!r}, {self.origin!r})"

    @property
    def shown(self) -> Any:
        return "***" if self.hidden and self.value else self.value


Branch: TypeAlias = dict[str, "Tree"]
Tree: TypeAlias = Leaf | Branch


class Empty(dict[str, "Tree"]):
    """An object without values, which could not tell where it came from otherwise."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self.origin = origin


def dotted(path: KeyPath) -> str:
    """`provider.openai.models."gpt-4.1"`: a name with a dot in it is quoted."""
    return ".".join(part if _PLAIN.fullmatch(part) else json.dumps(part, ensure_ascii=False) for part in path)


def grow(value: dict[str, Any], leaf: Callable[[KeyPath, Any], Leaf], path: KeyPath = ()) -> Branch:
    """The tree of a parsed object."""
    if not value:
        return Empty(leaf(path, value).origin)
    return {
        key: grow(below, leaf, (*path, key)) if isinstance(below, dict) else leaf((*path, key), below)
        for key, below in value.items()
    }


def plain(tree: Tree) -> Any:
    """The values alone."""
    return tree.value if isinstance(tree, Leaf) else {key: plain(below) for key, below in tree.items()}


def leaves(tree: Tree, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Leaf]]:
    if isinstance(tree, Leaf):
        yield path, tree
    else:
        for key, below in tree.items():
            yield from leaves(below, (*path, key))


def at(tree: Tree, path: KeyPath) -> Tree | None:
    for key in path:
        if isinstance(tree, Leaf) or key not in tree:
            return None
        tree = tree[key]
    return tree


def origin_of(tree: Tree, path: KeyPath) -> str:
    """Where the value at `path` came from; of an object, where its last value did."""
    found = at(tree, path)
    if isinstance(found, Empty):
        return found.origin
    return next((leaf.origin for _, leaf in reversed(list(leaves(found)))), DEFAULT) if found else DEFAULT


def branch(tree: Branch, key: str) -> Branch:
    """The object under `key`, empty if there is none."""
    below = tree.get(key, {})
    return {} if isinstance(below, Leaf) else below


def lay(under: Branch, over: Branch, path: KeyPath = ()) -> Branch:
    """Objects merge, key by key; of two other values the upper one stays.

    Permissions are rules of which the last that matches wins, so there a key that is written again moves
    behind all that were written below it.
    """
    merged = dict(under)
    for key, value in over.items():
        below = merged.pop(key, None) if "permission" in path else merged.get(key)
        merged[key] = value if below is None else _lay(below, value, (*path, key))
    return merged


def _lay(under: Tree, over: Tree, path: KeyPath) -> Tree:
    if isinstance(over, Leaf):
        if isinstance(under, Leaf) and path in _GROWING:
            return _append(under, over)
        return over
    if isinstance(under, Leaf):
        # `"bash": "ask"` below `"bash": {"git *": "allow"}` still asks for the rest.
        return lay({"*": under}, over, path) if "permission" in path else over
    return lay(under, over, path) if over else under or over


def _append(under: Leaf, over: Leaf) -> Leaf:
    """What is named again counts where it is named last: a plugin may come with other options there."""
    again = {_name(item) for item in over.value}
    kept = [item for item in under.value if _name(item) not in again]
    origin = f"{under.origin}, {over.origin}" if kept and under.origin != over.origin else over.origin
    return replace(over, value=[*kept, *over.value], origin=origin, hidden=under.hidden or over.hidden)


def _name(item: Any) -> str:
    return str(item[0] if isinstance(item, list) else item)
