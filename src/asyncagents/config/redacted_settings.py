"""The effective settings of a directory as one object in the shape of a file, with secrets redacted."""

from typing import Any

from asyncagents.config.load import LoadedConfig
from asyncagents.config.tree import DEFAULT, Branch, ConfigLeaf, Tree, branch, leaves

REDACTED = "***"
REQUIRED_KEYS: dict[str, Any] = {"agent": {}, "mode": {}, "command": {}, "plugin": []}
"""Keys that OpenCode's clients require."""


def redacted_settings(loaded: LoadedConfig) -> dict[str, Any]:
    """Return all effective settings, without built-in providers that no file mentions."""
    mentioned: Branch = {
        name: provider
        for name, provider in branch(loaded.tree, "provider").items()
        if any(leaf.origin != DEFAULT for _, leaf in leaves(provider))
    }
    tree = {key: below for key, below in loaded.tree.items() if key != "provider"}
    settings = _redact_tree({**tree, "provider": mentioned})
    return {**REQUIRED_KEYS, **{key: value for key, value in settings.items() if key != "provider" or value}}


def _redact_tree(tree: Tree) -> Any:
    if not isinstance(tree, ConfigLeaf):
        return {key: _redact_tree(below) for key, below in tree.items()}
    return [REDACTED] if tree.hidden and isinstance(tree.value, list) else tree.visible_value
