"""What the files of a directory say, as one object in their own shape; whatever opens a door is stars."""

from typing import Any

from asyncagents.config.load import Loaded
from asyncagents.config.tree import DEFAULT, Branch, Leaf, Tree, branch, leaves

VEIL = "***"
ALWAYS: dict[str, Any] = {"agent": {}, "mode": {}, "command": {}, "plugin": []}
"""OpenCode's clients count on these."""


def told(loaded: Loaded) -> dict[str, Any]:
    """All that counts; a known provider that nothing mentions is left out."""
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
