"""A bug put into a copy of the source on purpose."""

import subprocess
import sys
from pathlib import Path

from msgspec import Struct


class Mutant(Struct, frozen=True):
    name: str
    file: str
    old: str
    new: str
    first: int = 0
    """The seed to begin with: where it is known to die late, most of what it survives is not played."""

    def apply(self, source: str) -> str:
        """Return the source with the bug in it."""
        assert source.count(self.old) == 1, (
            f"{self.file} has changed; bring the mutant {self.name} up to date"
        )
        return source.replace(self.old, self.new)


def wrong_names(file: Path) -> str:
    """List undefined and unused names of a mutated file: such code dies of itself, and proves nothing."""
    if file.suffix != ".py":
        return ""
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F", "--quiet"]
    done = subprocess.run([*ruff, str(file)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
