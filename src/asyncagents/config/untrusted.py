"""What the files of a project that is not trusted name, so that an error about it can say where it stands."""

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from asyncagents.config.tree import KeyPath

TRUST_VARIABLE = "ASYNCAGENTS_TRUST"
MODELS = ("provider", "model", "disabled_providers", "enabled_providers")
"""Keys that decide which model can be asked."""


class Untrusted(Struct, frozen=True):
    root: str = ""
    named: dict[KeyPath, str] = {}
    """By key, such as `("provider", "fake")`: the file that names it."""

    def fact(self, what: str, *path: str) -> str | None:
        """Say which untrusted file names `what`; None if none does."""
        file = self.named.get(path)
        return None if file is None else f"{what} is named in {relative(file, self.root)}"

    def sentence(self, fact: str) -> str:
        """Say the fact and what to do about it."""
        return f"{fact}, which is not trusted: {way_out(self.root)}"

    def model_fact(self) -> str | None:
        """Say which untrusted file names providers or models; None if none does."""
        for path, file in self.named.items():
            if path[0] in MODELS:
                return f"{'.'.join(path)} is named in {relative(file, self.root)}"
        return None


NONE_UNTRUSTED = Untrusted()


def name_untrusted(left_out: Mapping[str, Iterable[KeyPath]], root: Path) -> Untrusted:
    """Index what was left out by its first two keys; of several files the last one is named."""
    named = {path[:2]: label for label, paths in left_out.items() for path in paths}
    return Untrusted(str(root), named)


def way_out(root: str) -> str:
    """Say what to do about a project that is not trusted."""
    return f"run `asyncagents trust {shlex.quote(root)}`, or set {TRUST_VARIABLE}=1"


def relative(file: str, root: str) -> str:
    """Name a file of a project by its path below the root, others as they are."""
    inside = file.startswith(root.rstrip("/") + "/")
    return os.path.relpath(file, root) if inside else file
