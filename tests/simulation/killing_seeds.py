"""Which seed shows which mutant: `python -m tests.simulation.killing_seeds` looks for them anew.

`make test` begins at that seed, so most mutants cost one played world. A change of the engine or of the
schema moves seeds: the tests then play up to 200 seeds more for a mutant, and this program brings the table
up to date. `make soak` runs it with `--check`: each mutant must die within 200 seeds of its world.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.simulation.mutant import ROOT, SEEDS, TABLE, Mutant, killing_seeds, write_mutated
from tests.simulation.mutants import MUTANTS

FOUND = re.compile(r"(?:violation|Livelock|Deadlock) at seed (\d+)")
CHEAP = 0.35
"""Seconds of CPU: a killing seed that costs less is not compared with later ones."""
LATER = 40
"""So many seeds after a costly one are tried for a cheaper one."""


def _hunt(directory: Path, first: int, seeds: int) -> tuple[int | None, float]:
    """Return the first seed that kills the mutant of this directory, and the seconds of CPU it takes."""
    words = [sys.executable, "-m", "tests.simulation.hunt", "--first", str(first), "--seeds", str(seeds)]
    environment = os.environ | {"PYTHONPATH": f"{directory}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = FOUND.match(done.stdout)
    return (int(found[1]) if found else None), _last_seconds(done.stderr)


def _last_seconds(stderr: str) -> float:
    return float(stderr.rsplit(" last seed took ", 1)[1].split()[0]) if " last seed took " in stderr else 0.0


def find_seed(mutant: Mutant, first: int) -> int | None:
    """Find a seed that kills the mutant, not far from the first one, and if possible a cheap one."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_mutated(mutant, directory)
        best, seconds = _hunt(directory, first, SEEDS)
        if best is None:
            return None
        seed: int | None = best
        last = best + LATER
        while seconds > CHEAP and seed is not None and seed < last:
            seed, cost = _hunt(directory, seed + 1, last - seed)
            if seed is not None and cost < 0.7 * seconds:
                best, seconds = seed, cost
        print(f"{mutant.name}: seed {best}, {seconds:.2f} s", flush=True)
        return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a mutant survives")
    parser.add_argument("names", nargs="*", help="look for these mutants only")
    options = parser.parse_args()
    known = killing_seeds()
    chosen = [each for each in MUTANTS if not options.names or each.name in options.names]
    with ThreadPoolExecutor(2) as pool:
        seeds = list(pool.map(lambda each: find_seed(each, known.get(each.name, 0)), chosen))
    found = dict(zip((each.name for each in chosen), seeds, strict=True))
    survivors = [name for name, seed in found.items() if seed is None]
    if not options.check:
        table = {each.name: found.get(each.name, known.get(each.name)) for each in MUTANTS}
        TABLE.write_text(json.dumps({k: v for k, v in table.items() if v is not None}, indent=1) + "\n")
    print(f"{len(found) - len(survivors)} of {len(found)} mutants die", *survivors, sep="\n  survived: ")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
