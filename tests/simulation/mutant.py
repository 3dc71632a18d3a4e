"""A bug put into a copy of the source on purpose."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "asyncagents"
TABLE = Path(__file__).with_name("killing_seeds.json")
SEEDS = 200
"""So many seeds a mutant may survive."""


class Mutant(Struct, frozen=True):
    name: str
    file: str
    old: str
    new: str

    @property
    def first(self) -> int:
        """The seed that is known to kill it; for a new mutant, the first seed of all."""
        return killing_seeds().get(self.name, 0)

    def apply(self, source: str) -> str:
        """Return the source with the bug in it."""
        assert source.count(self.old) == 1, (
            f"{self.file} has changed; bring the mutant {self.name} up to date"
        )
        return source.replace(self.old, self.new)


@cache
def killing_seeds() -> dict[str, int]:
    """Read the table that `python -m tests.simulation.killing_seeds` writes."""
    seeds: dict[str, int] = json.loads(TABLE.read_text())
    return seeds


def write_mutated(mutant: Mutant, directory: Path) -> Path:
    """Write the mutated file into a copy of the package made of links; return its path."""
    package, file = directory / "asyncagents", Path(mutant.file)
    for here in (*reversed(file.parents[:-1]), file):
        (package / here).parent.mkdir(exist_ok=True)
        for each in (PACKAGE / here).parent.iterdir():
            if each != PACKAGE / here:
                (package / here).with_name(each.name).symlink_to(each)
    mutated = package / file
    mutated.write_text(mutant.apply((PACKAGE / file).read_text()))
    return mutated


def wrong_names(file: Path) -> str:
    """List undefined and unused names of a mutated file: such code dies of itself, and proves nothing."""
    if file.suffix != ".py":
        return ""
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "F", "--quiet"]
    done = subprocess.run([*ruff, str(file)], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
