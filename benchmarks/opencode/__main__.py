"""`python -m benchmarks.opencode [--full]`: our server, and the real one beside it, under OpenCode's API."""

import argparse
import asyncio
import re
import sys
import tempfile
from pathlib import Path

import uvloop

from benchmarks.opencode.measure import Seen, measure
from benchmarks.opencode.report import table
from benchmarks.opencode.server import OURS, Contender, Server, peer, provider
from benchmarks.opencode.wire import Place

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
TITLE = "## Under OpenCode's API"
ABOUT = """
`make bench` runs the small one of our server alone, `make bench FULL=1` both, turn by turn, in one run on one
machine: client, model and server share its cores. The same config, snapshots off; the median of the rounds.
CPU is that of the server alone; a trivial session is one prompt and one answer of one chunk.
"""
MISSING = "OpenCode is not installed: `npm install opencode-ai`, or name its binary as OPENCODE_BIN."
SMALL, SIZES = (50,), (50, 200, 500)


async def _round(contender: Contender, port: int, sizes: tuple[int, ...], *, full: bool) -> Seen:
    with tempfile.TemporaryDirectory(prefix="bench-api-") as folder, provider() as model_port:
        server = Server(contender, Path(folder), Place(port), model_port)
        try:
            return await measure(server, sizes, full=full)
        finally:
            server.end()


def run(*, full: bool, rounds: int = 1, port: int = 20_800, sizes: tuple[int, ...] = ()) -> str:
    """The section of the page."""
    sizes = sizes or (SIZES if full else SMALL)
    against = peer() if full else None
    seen: dict[str, list[Seen]] = {OURS.name: [], "OpenCode": []}
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for number in range(rounds):
            for contender in (OURS, against) if against else (OURS,):
                sys.stderr.write(f"{contender.name}, round {number + 1} of {rounds}\n")
                seen[contender.name].append(runner.run(_round(contender, port, sizes, full=full)))
                port += 1
    note = "" if against or not full else f"\n{MISSING}\n"
    return f"{TITLE}\n{ABOUT}{note}\n{table(seen[OURS.name], seen['OpenCode'], sizes)}\n"


def keep(section: str) -> None:
    """In the place of the one that is there."""
    page = PAGE.read_text()
    found = re.compile(rf"{re.escape(TITLE)}\n.*?(?=\n## |\Z)", re.DOTALL)
    whole = found.sub(lambda _: section.rstrip("\n"), page) if found.search(page) else f"{page}\n{section}"
    PAGE.write_text(whole.rstrip("\n") + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="up to 500 at once, and OpenCode itself")
    parser.add_argument("--rounds", type=int, default=1, help="each server so often, in turn")
    parser.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=())
    parser.add_argument("--port", type=int, default=20_800)
    parser.add_argument("--keep", action="store_true", help="write the table to docs/benchmarks.md")
    options = parser.parse_args()
    section = run(full=options.full, rounds=options.rounds, port=options.port, sizes=options.sizes)
    if options.keep:
        keep(section)
    sys.stdout.write(section)


if __name__ == "__main__":
    main()
