"""Logs of store calls, replayed on PostgreSQL: `python -m tests.simulation.replay --seeds 200`."""

import argparse
import asyncio
import sys
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any

from msgspec import Struct

from asyncagents.domain.feed import Feed
from asyncagents.domain.id import Ids
from asyncagents.errors import AsyncAgentsError
from asyncagents.store.postgres.database import PostgresDatabase, open_postgres
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.tx import Commit, Database, Tx
from asyncagents.store.verb.feed import read_feed
from asyncagents.testing.clock import FakeClock, SeededRng
from tests.simulation.externals import EXTERNALS
from tests.simulation.logical import differences, in_postgres, in_sqlite
from tests.simulation.parks import PARKS
from tests.simulation.shells import SHELLS
from tests.simulation.stage import Violation
from tests.simulation.talks import TALKS
from tests.simulation.tape import Recorded, Taken, recorded
from tests.simulation.trees import TREES
from tests.simulation.undos import UNDOS
from tests.support.postgres.database import Server, a_database, open_server

WORLDS = (0, TREES, PARKS, SHELLS, UNDOS, TALKS, EXTERNALS)
"""The first seed of each kind."""
HANDLES = 2
"""Processes of a world share so many."""
COUNTED = {"turn_rev", "cancel_rev"}
"""What is a revision in what a verb returns."""
EVERYTHING = 1 << 40
SHOWN = 5


class Replayed(Struct):
    seeds: int = 0
    calls: int = 0
    refused: int = 0
    """Of the calls."""
    rows: int = 0
    crashes: int = 0
    kinds: set[str] = set()
    """Which verbs were among them."""


class ReplayedIds(Ids):
    """Makes the ids that were made before, once more for each try of a verb."""

    def __init__(self) -> None:
        self._event_end = ""
        self._left: list[int | str] = []

    def begin(self, drawn: list[int | str]) -> None:
        self._left = list(drawn)

    def end(self) -> None:
        if self._left:
            raise Violation(f"it made fewer ids: {self._left} are left")

    def _tick(self) -> int:
        if not self._left or not isinstance(tick := self._left.pop(0), int):
            raise Violation(f"it makes another id, with {self._left} left")
        return tick

    def _random(self) -> str:
        if not self._left or not isinstance(text := self._left.pop(0), str):
            raise Violation(f"it makes another id, with {self._left} left")
        return text


class Replay:
    """Processes of the world write through handles of their own, one call after the other."""

    def __init__(self, handles: list[PostgresDatabase], clock: FakeClock, ids: ReplayedIds) -> None:
        self._handles = handles
        self._clock = clock
        self._ids = ids
        self._commits: list[Commit] = []
        for handle in handles:
            handle.listen(self._commits.append)

    async def call(self, taken: Taken) -> None:
        """Raises `Violation` if anything of it comes out differently."""
        self._clock.set(taken.now)
        self._commits.clear()
        value, raised = await self._answer(taken)
        if raised is not taken.raised:
            raise Violation(f"it came to {raised}, and before to {taken.raised}")
        if odd := _first_odd(plain(taken.value), plain(value)):
            raise Violation(f"it returned another value: {odd}")
        if raised is None:
            self._ids.end()
            self._check_said(taken)

    async def _answer(self, taken: Taken) -> tuple[Any, type[Exception] | None]:
        async def again(tx: Tx) -> Any:
            self._ids.begin(taken.drawn)
            return await taken.verb(tx)

        try:
            return await self._handles[taken.process % len(self._handles)].write(again), None
        except AsyncAgentsError as error:
            if taken.raised is None:
                raise Violation(f"it was refused, and not before: {error!r}") from error
            return None, type(error)

    def _check_said(self, taken: Taken) -> None:
        (commit,) = self._commits
        heard: dict[str, list[Any]] = {
            "event": [*commit.events],
            "wake": [*commit.woken],
            "interrupt": [*commit.interrupted],
            "due": [*commit.due],
            "post": [*commit.posts],
        }
        for kind, now in heard.items():
            before = [what for each, what in taken.said if each == kind]
            if odd := _first_odd(before, now):
                raise Violation(f"it said something else, of kind {kind}: {odd}")


def _first_odd(before: Any, now: Any) -> str:
    """Where two part, if they do."""
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return next((odd for pair in zip(before, now, strict=True) if (odd := _first_odd(*pair))), "")
    return "" if before == now else f"before {before!r}, and now {now!r}"


def plain(value: Any) -> Any:
    """Without revisions."""
    if isinstance(value, Struct):
        names = [name for name in value.__struct_fields__ if name not in COUNTED]
        return [type(value), *([name, plain(getattr(value, name))] for name in names)]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


async def replay(record: Recorded, dsn: str) -> int:
    """In order, on a fresh database. Raises `Violation` where the two part; returns how many rows."""
    clock, ids = FakeClock(), ReplayedIds()
    async with AsyncExitStack() as stack:
        opened = [open_postgres(dsn, clock=clock, rng=SeededRng(1), ids=ids, size=2) for _ in range(HANDLES)]
        handles = [await stack.enter_async_context(each) for each in opened]
        there = Replay(handles, clock, ids)
        for number, taken in enumerate(record.log):
            try:
                await there.call(taken)
            except Violation as error:
                raise Violation(f"call {number}, {name_of(taken)}: {error}") from error
        before = in_sqlite(record.path)
        if odd := differences(before, await in_postgres(dsn)):
            raise Violation(f"{len(odd)} differences in what is there, as {odd[:SHOWN]}")
        await _check_feed(record, handles[0], clock)
    return sum(map(len, before.values()))


async def _check_feed(record: Recorded, database: Database, clock: FakeClock) -> None:
    """Whoever begins afresh is told the same, in the same order."""

    async def told(tx: Tx) -> Feed:
        return await read_feed(tx, None, window=EVERYTHING)

    async with open_sqlite(record.path, clock=clock, rng=SeededRng(1)) as sqlite:
        before, now = (await sqlite.read(told)).events, (await database.read(told)).events
    if odd := _first_odd(list(before), list(now)):
        raise Violation(f"the feed tells other things: {odd}")


def name_of(taken: Taken) -> str:
    """Such as `Store.admit`."""
    return taken.verb.__qualname__.partition(".<")[0]


def replay_seeds(server: Server, seeds: Iterable[int]) -> Replayed:
    """Play each and replay its log on a database of its own. Raises `Violation`, with the seed."""
    done = Replayed(kinds=set())
    for seed in seeds:
        with recorded(seed) as record:
            try:
                done.rows += asyncio.run(replay_on(server, record))
            except Violation as error:
                raise Violation(f"seed {seed}: {error}") from error
        done.seeds += 1
        done.crashes += record.crashes
        done.calls += len(record.log)
        done.refused += sum(taken.raised is not None for taken in record.log)
        done.kinds |= set(map(name_of, record.log))
    return done


async def replay_on(server: Server, record: Recorded) -> int:
    async with a_database(server) as dsn:
        return await replay(record, dsn)


def of_each_world(first: int, many: int) -> list[int]:
    return [world + seed for seed in range(first, first + many) for world in WORLDS]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=200, help="of each kind of worlds")
    options = parser.parse_args()
    with open_server() as server:
        done = replay_seeds(server, of_each_world(options.first, options.seeds))
    sys.stdout.write(f"{done}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
