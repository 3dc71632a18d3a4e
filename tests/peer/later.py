"""The whole program with a clock that is ahead: `python tests/peer/later.py MS serve --port 0`."""

import sys
import time

from asyncagents.cli.main import main
from asyncagents.config.clock import SystemClock


def put_ahead(ms: int) -> None:
    """Only the clock is another one: all that asks it is the program's own."""
    SystemClock.now = lambda self: time.time_ns() // 1_000_000 + ms  # type: ignore[method-assign]


if __name__ == "__main__":
    put_ahead(int(sys.argv.pop(1)))
    main()
