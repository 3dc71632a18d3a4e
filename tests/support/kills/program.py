"""A siege from the command line: so many kills of real processes, then what came of them."""

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from tests.simulation.hunt import reason
from tests.simulation.stage import Violation


class Summary(Struct, frozen=True):
    kills: int
    seconds: float
    counts: dict[str, int]


class Besiege(Protocol):
    async def __call__(self, directory: Path, *, kills: int, seed: int) -> Summary: ...


def run_siege(besiege: Besiege, what: str = "kills") -> int:
    """Returns what the process ends with; what broke is left to be looked at."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="kills"))
    try:
        summary = asyncio.run(besiege(directory, kills=options.kills, seed=options.seed))
    except (Violation, BaseExceptionGroup) as error:
        sys.stdout.write(f"violation: {reason(error)!r}; see {directory}\n")
        return 1
    shutil.rmtree(directory)
    rate = summary.kills / summary.seconds
    sys.stdout.write(f"{summary.kills} {what} in {summary.seconds:.0f} s ({rate:.1f}/s): {summary.counts}\n")
    return 0
