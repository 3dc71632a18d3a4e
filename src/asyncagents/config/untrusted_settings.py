"""What the files of an untrusted project name, so that an error can refer to the file."""

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from asyncagents.config.tree import KeyPath

TRUST_VARIABLE = "ASYNCAGENTS_TRUST"
MODELS = ("provider", "model", "disabled_providers", "enabled_providers")
"""Keys that determine the usable models."""


class UntrustedSettings(Struct, frozen=True):
    root: str = ""
    named: dict[KeyPath, str] = {}
    """The file that names each key, such as `("provider", "fake")`."""

    def fact(self, what: str, *path: str) -> str | None:
        """State which untrusted file names `what`; None if none does."""
        file = self.named.get(path)
        return None if file is None else f"{what} is named in {relative_path(file, self.root)}"

    def sentence(self, fact: str) -> str:
        """State the fact and what to do about it."""
        return f"{fact}, which is not trusted: {trust_hint(self.root)}"

    def model_fact(self) -> str | None:
        """State which untrusted file names providers or models; None if none does."""
        for path, file in self.named.items():
            if path[0] in MODELS:
                return f"{'.'.join(path)} is named in {relative_path(file, self.root)}"
        return None


NO_UNTRUSTED = UntrustedSettings()


def index_untrusted(left_out: Mapping[str, Iterable[KeyPath]], root: Path) -> UntrustedSettings:
    """Index the left out settings by their first two keys; of several files the last one wins."""
    named = {path[:2]: label for label, paths in left_out.items() for path in paths}
    return UntrustedSettings(str(root), named)


def trust_hint(root: str) -> str:
    """Return the advice for an untrusted project."""
    return f"run `asyncagents trust {shlex.quote(root)}`, or set {TRUST_VARIABLE}=1"


def relative_path(file: str, root: str) -> str:
    """Return the path of a file relative to the root; other files keep their path."""
    inside = file.startswith(root.rstrip("/") + "/")
    return os.path.relpath(file, root) if inside else file
