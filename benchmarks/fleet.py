"""Many processes on one PostgreSQL: `python -m benchmarks.fleet [--full] [turns] [steps] [wake] …`.

`python -m benchmarks.fleet said` lists what a worker and a client say to the database for a turn.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Sequence

import uvloop

from benchmarks import fleet_events, fleet_parked, fleet_steps, fleet_turns, fleet_wake
from benchmarks.fleet_tally import Times
from benchmarks.report import Figure, table
from tests.support.postgres.database import Server, open_server

PARTS: dict[str, Callable[[Server, bool], Awaitable[list[Figure]]]] = {
    "turns": lambda server, full: fleet_turns.measure(server),
    "steps": lambda server, full: fleet_steps.measure(server),
    "wake": lambda server, full: fleet_wake.measure(server),
    "events": lambda server, full: fleet_events.measure(server),
    "parked": lambda server, full: fleet_parked.measure(server, full=full),
}


def measure(*, full: bool = False, parts: Sequence[str] = tuple(PARTS)) -> list[Figure]:
    """On a server of its own, which syncs."""
    with open_server(durable=True) as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return [figure for part in parts for figure in runner.run(_part(part, server, full=full))]


async def _part(part: str, server: Server, *, full: bool) -> list[Figure]:
    return await PARTS[part](server, full)


def _said() -> str:
    with open_server(durable=True) as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        workers, client = runner.run(fleet_turns.tallied(server))
    return "\n\n".join(_list(who, said) for who, said in (("a worker", workers), ("a client", client)))


def _list(who: str, said: dict[str, Times]) -> str:
    rows = [
        f"| {name} | {times.count / fleet_turns.TALLIED:.2f} | {times.seconds / times.count * 1e3:.2f} ms |"
        for name, times in sorted(said.items(), key=lambda each: -each[1].count)
    ]
    return "\n".join([f"| said by {who}, a turn | times | answered in |", "|---|---|---|", *rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "said", []], default=[], help="all unless given")
    parser.add_argument("--full", action="store_true", help="a million parked sessions")
    options = parser.parse_args()
    if options.parts == ["said"]:
        print(_said())
    else:
        print(table(measure(full=options.full, parts=options.parts or tuple(PARTS))))


if __name__ == "__main__":
    main()
