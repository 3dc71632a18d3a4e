"""A seed's log of store calls: every verb that was committed, in that order, with all that it was given."""

import asyncio
import logging
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from asyncagents.domain.id import Ids
from asyncagents.store.sqlite.connection import Connection, SqliteCursor, connect_with
from asyncagents.store.sqlite.group_commit import GroupCommit
from asyncagents.store.sqlite.writer import Report
from asyncagents.store.tx import Tx, Verb
from asyncagents.testing.clock import SeededRng
from asyncagents.testing.fault import FaultyConnection
from asyncagents.testing.inline_writer import InlineWriter
from asyncagents.testing.process import Process
from asyncagents.testing.simloop import SimLoop
from tests.simulation.play import LONG_MAX_STEPS, _memory, _world
from tests.simulation.scenario import Scenario


class Taken(Struct):
    """What one verb was given, and what it came to."""

    verb: Verb[Any]
    process: int
    now: int
    drawn: list[int | str] = []
    """What its ids were made of."""
    said: list[tuple[str, Any]] = []
    """Events, and hints to whoever is to hear of it."""
    value: Any = None
    raised: type[Exception] | None = None


class TapedIds(Ids):
    """Ids of a transaction, written down as they are made."""

    def __init__(self, ids: Ids, drawn: list[int | str]) -> None:
        self._real = ids
        self._drawn = drawn
        self._event_end = ""

    def _tick(self) -> int:
        self._drawn.append(tick := self._real._tick())
        return tick

    def _random(self) -> str:
        self._drawn.append(text := self._real._random())
        return text


class TapedTx:
    """A transaction of which is written down what a verb draws and says."""

    def __init__(self, tx: Tx, taken: Taken) -> None:
        self._tx = tx
        self._said = taken.said
        self.now, self.ids = tx.now, TapedIds(tx.ids, taken.drawn)
        self.one, self.all, self.run, self.rev = tx.one, tx.all, tx.run, tx.rev

    def emit(self, event: Any) -> None:
        self._said.append(("event", event))
        self._tx.emit(event)

    def wake(self, session_id: Any) -> None:
        self._said.append(("wake", session_id))
        self._tx.wake(session_id)

    def interrupt(self, session_id: Any) -> None:
        self._said.append(("interrupt", session_id))
        self._tx.interrupt(session_id)

    def schedule(self, due: int) -> None:
        self._said.append(("due", due))
        self._tx.schedule(due)

    def schedule_webhook(self, due: int) -> None:
        self._said.append(("post", due))
        self._tx.schedule_webhook(due)


class Tape:
    """Of one process. What is tried goes to the log of all when SQLite has committed it, heard of or not."""

    def __init__(self, process: int, log: list[Taken]) -> None:
        self._process = process
        self._log = log
        self._tried: list[Taken] = []

    def taped(self, verb: Verb[Any]) -> Verb[Any]:
        async def run(tx: Tx) -> Any:
            taken = Taken(verb, self._process, tx.now, [], [])
            try:
                taken.value = await verb(TapedTx(tx, taken))
            except sqlite3.Error:
                raise  # the file's trouble, not the verb's answer
            except Exception as error:
                taken.raised = type(error)
                self._tried.append(taken)
                raise
            self._tried.append(taken)
            return taken.value

        return run

    def executed(self, sql: str) -> None:
        """One that is refused is rolled back to its own savepoint, and counts: it was asked for and answered.
        Those that were tried together are tried again, each by itself."""
        if sql == "COMMIT":
            self._log.extend(self._tried)
        if sql in ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK", "ROLLBACK TO members"):
            self._tried.clear()


class TapedConnection:
    def __init__(self, real: Connection, tape: Tape) -> None:
        self._real = real
        self._tape = tape
        self.close = real.close

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> SqliteCursor:
        done = self._real.execute(sql, params)
        self._tape.executed(sql)
        return done


class TapedWriter(InlineWriter):
    def __init__(self, group_commit: GroupCommit, report: Report, *, process: "TapedProcess") -> None:
        rng = SeededRng(process._machine.rng.below(2**32))  # as an untaped one draws it: the same world
        super().__init__(group_commit, report, rng=rng, died=process.crash)
        self._tape = process.tape

    def submit(self, verb: Verb[Any], *, inline: bool = False) -> asyncio.Future[Any]:
        return super().submit(self._tape.taped(verb), inline=inline)


class TapedProcess(Process):
    tape: Tape

    def _connect(self, path: Path) -> Connection:
        return FaultyConnection(TapedConnection(connect_with(path, synchronous="OFF"), self.tape), self)

    def _make_writer(self, group_commit: GroupCommit, report: Report) -> InlineWriter:
        self._writer = TapedWriter(group_commit, report, process=self)
        return self._writer


class TapedScenario(Scenario):
    log: list[Taken]

    def _start(self) -> None:
        """As the one above, with a tape."""
        assert self._group is not None
        self._number += 1
        process = TapedProcess(self.machine, self._number, self._watched)
        process.tape = Tape(self._number, self.log)
        self.processes.append(process)
        self.everybody[process.number] = process
        self._group.create_task(self._live(process))


class Recorded(Struct, frozen=True):
    path: Path
    log: list[Taken]
    crashes: int
    digest: str


@contextmanager
def recorded(seed: int) -> Iterator[Recorded]:
    """A world is played to its end, as `play` does: its database file, and all that was committed to it."""
    world = _world(seed)
    bases = (TapedScenario,) if world is Scenario else (world, TapedScenario)
    taped: type[TapedScenario] = type("TapedWorld", bases, {"log": []})
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    directory = Path(tempfile.mkdtemp(prefix="tape", dir=_memory()))
    scenario = taped(seed, directory / "sim.db")
    loop = SimLoop(seed, max_steps=LONG_MAX_STEPS)
    try:
        loop.set_exception_handler(scenario.stage.broke)
        loop.run(scenario.play)
        scenario.stage.check_unbroken()
        logging.disable(before)
        crashes, digest = scenario.machine.crashes, loop.trace_digest()
        yield Recorded(scenario.machine.path, scenario.log, crashes, digest)
    finally:
        logging.disable(before)
        if scenario.stage.rows is not None:
            scenario.stage.rows.close()
        shutil.rmtree(directory)
