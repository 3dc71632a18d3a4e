"""`python -m benchmarks [--full]`: measure, print the table, and keep it in docs/benchmarks.md."""

import argparse
import asyncio
import platform
import tempfile
from pathlib import Path

from benchmarks import (
    acp,
    board,
    bring,
    commit,
    context,
    delegate,
    fan,
    fleet,
    fork,
    history,
    machine,
    parked,
    search,
    status,
    stream,
    turn,
    waiting,
)
from benchmarks.opencode.compare import compare
from benchmarks.report import Figure, table

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
ROUNDS = 3
"""Of our server and OpenCode's."""
HEAD = """# Benchmarks

What a turn, a task, a waiting session and a process cost. `make bench` measures it and writes this page;
`make bench FULL=1` parks a million sessions instead of 100,000, and compares the server with OpenCode's.

CPU is that of the whole process. Figures that are compared come from one run on one machine. CPU time and
ratios are steadier than wall-clock times, which depend on the disk and on other programs.
"wanted" is our own target.

"""


def _figures(full: bool) -> list[Figure]:
    figures = machine.measure()
    plain = (turn, stream, commit, history, context, fork, bring, search)
    for measure in (each.measure for each in plain):
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            figures += asyncio.run(measure(Path(directory)))
    figures += fan.measure()
    figures += delegate.measure()
    figures += acp.measure()
    figures += fleet.measure(full=full)
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        figures += asyncio.run(parked.measure(Path(directory), full=full))
        figures += asyncio.run(waiting.measure(Path(directory), full=full))
        figures += asyncio.run(board.measure(Path(directory), full=full))
        figures += asyncio.run(status.measure(Path(directory), full=full))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="a million parked sessions instead of 100,000")
    options = parser.parse_args()
    text = table(_figures(options.full))
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}."
    section = compare(full=options.full, rounds=ROUNDS if options.full else 1)
    PAGE.write_text(f"{HEAD}{machine}\n\n{text}\n\n{section}")
    print(text, section, sep="\n\n")


if __name__ == "__main__":
    main()
