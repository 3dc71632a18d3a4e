"""Play seeds until one breaks a promise: `python -m tests.simulation.hunt --first 0 --seeds 200`."""

import argparse
import sys
import time

from tests.simulation.play import play
from tests.simulation.stage import Violation


def reason(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def hunt(first: int, seeds: int) -> tuple[int, BaseException] | None:
    """The first seed that fails, and why."""
    for seed in range(first, first + seeds):
        began = time.process_time()
        try:
            play(seed)
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  whatever breaks is found
            print(f"the last seed took {time.process_time() - began:.3f} s of CPU", file=sys.stderr)
            return seed, reason(error)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--digests", action="store_true", help="print the trace of every seed instead")
    options = parser.parse_args()
    if options.digests:
        for seed in range(options.first, options.first + options.seeds):
            print(seed, play(seed).digest)
        return 0
    found = hunt(options.first, options.seeds)
    if found is None:
        print(f"no violation in {options.seeds} seeds")
        return 0
    seed, error = found
    kind = "violation" if isinstance(error, Violation) else type(error).__name__
    print(f"{kind} at seed {seed}: {error}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
