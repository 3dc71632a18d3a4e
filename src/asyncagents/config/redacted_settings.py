"""The effective settings of a directory as one object in the shape of a file, with secrets redacted."""

from typing import Any

from asyncagents.config.load import Loaded
from asyncagents.config.tree import DEFAULT, Branch, Leaf, Tree, branch, leaves

VEIL = "***"
ALWAYS: dict[str, Any] = {"agent": {}, "mode": {}, "command": {}, "plugin": []}
"""Keys that OpenCode's clients require."""


def told(loaded: Loaded) -> dict[str, Any]:
    """Return all effective settings, without built-in providers that no file mentions."""
    mentioned: Branch = {
        name: provider
        for name, provider in branch(loaded.tree, "provider").items()
        if any(leaf.origin != DEFAULT for _, leaf in leaves(provider))
    }
    tree = {key: below for key, below in loaded.tree.items() if key != "provider"}
    said = _shown({**tree, "provider": mentioned})
    return {**ALWAYS, **{key: value for key, value in said.items() if key != "provider" or value}}


def _shown(tree: Tree) -> Any:
    if not isinstance(tree, Leaf):
        return {key: _shown(below) for key, below in tree.items()}
    return [VEIL] if tree.hidden and isinstance(tree.value, list) else tree.shown
