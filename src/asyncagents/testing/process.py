"""A simulated machine: a data directory, and processes that crash at any commit and restart."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from asyncagents.app.assemble import Setup, start_runtime
from asyncagents.app.backend import Backend
from asyncagents.domain.clock import Rng
from asyncagents.domain.id import Ids, OwnerId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import StoreError
from asyncagents.store.sqlite.connection import Connection, connect_with
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.group_commit import GroupCommit
from asyncagents.store.sqlite.writer import Report
from asyncagents.testing.clock import LoopClock, SeededRng
from asyncagents.testing.fault import Crash, Fault, FaultyConnection
from asyncagents.testing.inline_writer import InlineWriter


class Odds:
    """Probabilities of faults per 1,000 commits (`full`: per 10,000 writes); none while `on` is false."""

    def __init__(self, rng: Rng, *, crash: int = 0, fail: int = 0, full: int = 0) -> None:
        self._rng = rng
        self._crash = crash
        self._fail = fail
        self._full = full
        self.on = True

    def commit(self) -> Fault | None:
        if not self.on:
            return None
        drawn = self._rng.below(1000)
        if drawn < self._crash:
            return "crash_before" if drawn % 2 else "crash_after"
        if drawn < self._crash + self._fail:
            return "fail_before" if drawn % 2 else "fail_after"
        return None

    def full(self) -> bool:
        return self.on and self._rng.below(10_000) < self._full


class Machine:
    """The data directory and the live owners; the disk outlives the processes."""

    def __init__(self, path: Path, seed: int, odds: Odds) -> None:
        self.path = path
        self.odds = odds
        self.rng = SeededRng(seed)
        self.owners: dict[OwnerId, None] = {}
        self.crashes = 0
        self.poll_seconds = 0.5
        """How often processes poll for commits of others."""

    def alive(self, owner: OwnerId) -> bool:
        return owner in self.owners


class _Owners:
    def __init__(self, machine: Machine, me: OwnerId) -> None:
        self.me = me
        self._machine = machine
        machine.owners[me] = None

    def alive(self, owner: OwnerId) -> bool:
        return self._machine.alive(owner)

    def close(self) -> None:
        self._machine.owners.pop(self.me, None)


class Process:
    """A simulated process. Run `live` as a task; `runtime` is set from `started` until `over`."""

    def __init__(self, machine: Machine, number: int, setup: Callable[["Process"], Setup]) -> None:
        self.number = number
        self.dead = False
        self.started = asyncio.Event()
        self.over = asyncio.Event()
        self.runtime: Runtime | None = None
        self._machine = machine
        self._setup = setup
        self._writer: InlineWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    def commit(self) -> Fault | None:
        return self._machine.odds.commit()

    def full(self) -> bool:
        return self._machine.odds.full()

    async def live(self) -> None:
        """Run until a crash or `stop`."""
        self._task = asyncio.current_task()
        owners = _Owners(self._machine, OwnerId(f"owner{self.number}"))
        try:
            await self._work(owners)
        except Crash:
            self.crash()
        except asyncio.CancelledError:
            if not self.dead:
                raise
        except StoreError:
            self.crash()  # the store could not be opened
        finally:
            owners.close()
            self.over.set()

    async def _work(self, owners: _Owners) -> None:
        loop = asyncio.get_running_loop()
        clock, rng = LoopClock(loop), SeededRng(self._machine.rng.below(2**32))
        ids = Ids(clock, rng)
        async with (
            open_sqlite(
                self._machine.path,
                clock=clock,
                rng=rng,
                ids=ids,
                connect=self._connect,
                make_writer=self._make_writer,
            ) as database,
            start_runtime(
                Backend(database, owners, clock, rng, ids, poll_seconds=self._machine.poll_seconds),
                self._setup(self),
            ) as runtime,
        ):
            self.runtime = runtime
            self.started.set()
            await self._stop.wait()

    def _connect(self, path: Path) -> Connection:
        return FaultyConnection(connect_with(path, synchronous="OFF"), self)

    def _make_writer(self, group_commit: GroupCommit, report: Report) -> InlineWriter:
        self._writer = InlineWriter(
            group_commit, report, rng=SeededRng(self._machine.rng.below(2**32)), died=self.crash
        )
        return self._writer

    def stop(self) -> None:
        """Request an orderly end."""
        self._stop.set()

    def disown(self) -> None:
        """Make other processes consider this one dead while it runs: its writes must be refused."""
        self._machine.owners.pop(OwnerId(f"owner{self.number}"), None)

    def crash(self) -> None:
        """Crash: the process writes nothing more, and its owner is dead at once."""
        if self.dead or self.over.is_set():
            return
        self.dead = True
        self._machine.crashes += 1
        self.disown()
        if self._writer is not None:
            self._writer.die()
        if self._task is not None:
            self._task.cancel()
