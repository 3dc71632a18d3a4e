"""A runtime on a disk whose power fails at any write: `python -m tests.support.kills.power_cut --cuts 2000`.

What the disk holds afterwards must be exactly what one of the commits left there, and none that was
acknowledged may be missing. The next process takes it up from there, perhaps until the next cut; the last one
brings everything to rest, and every promise is checked.
"""

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from asyncagents.app.assemble import Setup
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.store.sqlite.connection import Connection, configure
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.group_commit import GroupCommit
from asyncagents.store.sqlite.writer import Report
from asyncagents.testing.clock import FakeClock, SeededRng
from asyncagents.testing.inline_writer import InlineWriter
from asyncagents.testing.power_cut import PowerCut
from asyncagents.testing.process import Machine, Odds, Process
from asyncagents.testing.simloop import SimLoop
from tests.simulation.cast import Cast
from tests.simulation.checker import check
from tests.simulation.hunt import reason
from tests.simulation.stage import Violation
from tests.support.kills.crowd import Crowd
from tests.support.kills.park_crowd import Couriers, ParkCast, check_owed
from tests.support.kills.witness import Outcome, PoweredConnection, WatchedWriter, Witness

Play: TypeAlias = Callable[[Runtime], Awaitable[None]]
FILE = "asyncagents.db"
LIFETIME_SECONDS = 10_000
MAX_STEPS = 100_000

FIRST_OPERATIONS = 120
"""About as many as a new database takes to be made."""
OPERATIONS = 1_800
"""About as many as a life takes that no cut ends."""
BESIDE = 4_000
"""Pages. The log never grows so long here: it is moved by another connection, as it is in a real process."""
WAITING = 1_000_000
"""From this seed on, sessions wait for results, and results are most of what is acknowledged."""


class Tally(Struct):
    """What came of some seeds."""

    cuts: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    verbs: Counter[str] = field(default_factory=Counter)
    """What was acknowledged."""
    largest: int = 0
    """So many verbs shared a commit."""
    results: int = 0
    """Of calls that waited: so many were acknowledged."""
    owed: int = 0
    """So many outgoing messages were written down with them."""
    bad: list[int] = field(default_factory=list)
    """The seeds of worlds in which something was lost or broken."""

    def add(self, other: "Tally") -> None:
        self.cuts += other.cuts
        self.outcomes += other.outcomes
        self.verbs += other.verbs
        self.largest = max(self.largest, other.largest)
        self.results += other.results
        self.owed += other.owed
        self.bad += other.bad


class Drive(Struct, frozen=True):
    """The failing disk, as a process connects to it."""

    power: PowerCut
    witness: Witness
    synchronous: str
    checkpoint: int

    def connect(self, path: Path) -> Connection:
        connection = PoweredConnection(self.power, path.name, self.witness)
        configure(connection, synchronous=self.synchronous)
        connection.execute(f"PRAGMA wal_autocheckpoint = {self.checkpoint}")
        return connection


class PoweredProcess(Process):
    def __init__(
        self, machine: Machine, number: int, setup: Callable[[Process], Setup], *, drive: Drive
    ) -> None:
        super().__init__(machine, number, setup)
        self._drive = drive

    def _connect(self, path: Path) -> Connection:
        return self._drive.connect(path)

    def _make_writer(self, group_commit: GroupCommit, report: Report) -> InlineWriter:
        rng = SeededRng(self._machine.rng.below(2**32))
        writer = WatchedWriter(group_commit, report, rng=rng, died=self.crash, witness=self._drive.witness)
        if self._drive.checkpoint == BESIDE:
            writer.move_the_log_beside()
        self._writer = writer
        return writer


class World:
    """One disk, and the lives that are led on it."""

    def __init__(self, directory: Path, seed: int, *, synchronous: str) -> None:
        self.rng = random.Random(f"powercuts:{seed}")
        self.crowd = Crowd(self.rng) if seed < WAITING else Couriers(self.rng)
        self.witness = Witness()
        self.operations = 0
        self.owed = 0
        stage = self.crowd.stage
        self._cast = Cast(stage, seed) if seed < WAITING else ParkCast(stage, seed)
        self._synchronous = synchronous
        self._checkpoint = self.rng.choice([8, 30, 1000]) if seed < WAITING else BESIDE
        self._lives = 0
        self._scratch = directory / "scratch"
        self._disk = directory / "disk"
        self._disk.mkdir(parents=True)

    def furnish(self, database: bytes) -> None:
        """Begin with this file instead of with nothing."""
        (self._disk / FILE).write_bytes(database)
        self.witness.begins(self._disk / FILE)

    def cut(self, after: int) -> Outcome:
        """A life until the power goes, at that operation or when the work is done."""
        power = PowerCut(self._disk, self.rng.randrange(2**32), after)
        drive = Drive(power, self.witness, self._synchronous, self._checkpoint)
        machine = self._machine(self._disk / "live" / FILE)
        self._live(PoweredProcess(machine, self._lives, self._cast.setup, drive=drive), self.crowd.busy)
        power.cut()
        self.operations = power.operations
        self._disk = power.survivors()
        return self.witness.judge(self._disk / FILE, self._scratch)

    def rest(self) -> None:
        """The last life, on a disk that does not fail; raises `Violation`."""
        path = self._disk / FILE
        self._live(Process(self._machine(path), self._lives, self._cast.setup), self.crowd.rest)
        self.crowd.stage.check_unbroken()
        check(self.crowd.stage, path)
        self.owed = check_owed(path)

    def _machine(self, path: Path) -> Machine:
        return Machine(path, self.rng.randrange(2**32), Odds(SeededRng(0)))

    def _live(self, process: Process, play: Play) -> None:
        loop = SimLoop(self.rng.randrange(2**32), max_steps=MAX_STEPS)
        loop.set_exception_handler(self.crowd.stage.broke)
        loop.run(lambda: self._play(process, play))
        self.crowd.stage.died(process.number)
        self._lives += 1

    async def _play(self, process: Process, play: Play) -> None:
        await asyncio.sleep(self._lives * LIFETIME_SECONDS)  # time goes on over all lives
        async with asyncio.TaskGroup() as group:
            life, over = group.create_task(process.live()), group.create_task(process.over.wait())
            begun = group.create_task(process.started.wait())
            await asyncio.wait({begun, over}, return_when=asyncio.FIRST_COMPLETED)
            if begun.done() and process.runtime is not None:
                work = group.create_task(_ignore_death(process, play(process.runtime)))
                await asyncio.wait({work, over}, return_when=asyncio.FIRST_COMPLETED)
                work.cancel()
            begun.cancel()
            process.stop()
            await asyncio.wait({life})


async def _ignore_death(process: Process, work: Awaitable[None]) -> None:
    try:
        await work
    except (Exception, BaseExceptionGroup):
        if not process.dead:
            raise


def cut_once(directory: Path, seed: int, *, synchronous: str = "FULL") -> Tally:
    """One world: a cut, now and then one or two more while it recovers, then peace. Raises `Violation`."""
    world = World(directory, seed, synchronous=synchronous)
    rng, tally = random.Random(f"cuts:{seed}"), Tally()
    empty = rng.random() < 0.2
    if not empty:
        world.furnish(new_database())
    for number in range(rng.choice([1, 1, 1, 2, 3])):
        most = FIRST_OPERATIONS if empty and number == 0 else OPERATIONS
        outcome = world.cut(1 + rng.randrange(most))
        tally.cuts += 1
        tally.outcomes[outcome] += 1
        if outcome != "kept":
            tally.bad.append(seed)
            return tally
    world.rest()
    tally.verbs, tally.largest = world.witness.verbs, world.witness.largest
    tally.results, tally.owed = world.crowd.stage.counts.get("results", 0), world.owed
    return tally


@cache
def new_database() -> bytes:
    """A file that was made before the power became uncertain."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / FILE
        asyncio.run(_make(path))
        return path.read_bytes()


async def _make(path: Path) -> None:
    async with open_sqlite(path, clock=FakeClock(), rng=SeededRng(0)):
        pass


def cut_often(first: int, cuts: int, *, synchronous: str = "FULL") -> Tally:
    """Worlds from the seed `first` on, until there were so many cuts; a violation names its seed."""
    tally, seed = Tally(), first
    while tally.cuts < cuts:
        try:
            with tempfile.TemporaryDirectory(prefix="powercut", dir=_memory()) as directory, _silence():
                tally.add(cut_once(Path(directory), seed, synchronous=synchronous))
        except (Exception, BaseExceptionGroup) as error:
            raise Violation(f"seed {seed}: {reason(error)!r}") from error
        seed += 1
    return tally


@contextmanager
def _silence() -> Iterator[None]:
    """Runs that end with the power are logged as dropped."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--waiting", type=int, default=0, help="so many of them while results come in")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--synchronous", default="FULL")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        tally = cut_often(options.seed, options.cuts - options.waiting, synchronous=options.synchronous)
        tally.add(cut_often(WAITING + options.seed, options.waiting, synchronous=options.synchronous))
    except Violation as violation:
        sys.stdout.write(f"violation: {violation}\n")
        return 1
    seconds = time.monotonic() - began
    sys.stdout.write(f"{tally.cuts} power cuts in {seconds:.0f} s ({tally.cuts / seconds:.1f}/s): ")
    sys.stdout.write(f"{dict(tally.outcomes)}; acknowledged {dict(tally.verbs)}, ")
    sys.stdout.write(f"up to {tally.largest} in a commit, {tally.results} results of open calls, ")
    sys.stdout.write(f"{tally.owed} of them owed to others; bad seeds: {tally.bad or 'none'}\n")
    return 1 if tally.bad else 0


if __name__ == "__main__":
    sys.exit(main())
