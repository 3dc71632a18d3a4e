"""`python -m benchmarks.opencode [--full]`: our server, and the real one beside it, under OpenCode's API."""

import argparse
import sys

from benchmarks.opencode.compare import PORT, compare, keep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="up to 500 at once, and OpenCode itself")
    parser.add_argument("--rounds", type=int, default=1, help="each server so often, in turn")
    parser.add_argument("--sizes", type=lambda text: tuple(map(int, text.split(","))), default=())
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--keep", action="store_true", help="write the table to docs/benchmarks.md")
    options = parser.parse_args()
    section = compare(full=options.full, rounds=options.rounds, port=options.port, sizes=options.sizes)
    if options.keep:
        keep(section)
    sys.stdout.write(section)


if __name__ == "__main__":
    main()
