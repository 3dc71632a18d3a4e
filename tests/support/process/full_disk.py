"""A disk fills up under a runtime and gets room again: `python -m tests.support.process.full_disk DISK`."""

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from asyncagents import Completed, Runtime, ScriptedModel, Tool, ToolContext, call, open_runtime, say
from asyncagents.app.assemble import Setup, start_runtime
from asyncagents.app.backend import Backend
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.domain.id import Ids, SessionId
from asyncagents.engine.tool import Outcome
from asyncagents.errors import StoreError
from asyncagents.store.sqlite.connection import Connection, SqliteCursor, connect
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.owners import FlockOwners
from tests.simulation.checker import check
from tests.simulation.stage import Stage, Violation
from tests.support.runtime import wait_until_all_rest
from tests.support.wait import wait_until

FILE = "asyncagents.db"
WORK = "work"
LONG = "x" * 3_000
MOST_PROMPTS = 300
REST_SECONDS = 20
FULL = "database or disk is full"


class Disk(Protocol):
    def fill(self) -> None: ...
    def free(self) -> None: ...


class SmallDisk:
    """A real one, on which another file takes all that is left."""

    def __init__(self, directory: Path) -> None:
        self._other = directory / "other"

    def fill(self) -> None:
        fd = os.open(self._other, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while True:
                os.write(fd, bytes(65_536))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
        finally:
            os.close(fd)

    def free(self) -> None:
        self._other.unlink()


class LastPage:
    """A stand-in for a small disk: SQLite may not add a page to its file."""

    def __init__(self) -> None:
        self._full = False

    def fill(self) -> None:
        self._full = True

    def free(self) -> None:
        self._full = False

    def connect(self, path: Path) -> Connection:
        return _Limited(connect(path), self)

    def limit(self, connection: Connection) -> None:
        pages = connection.execute("PRAGMA page_count").fetchone()[0] if self._full else 2**30
        connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()


class _Limited:
    def __init__(self, real: Connection, disk: LastPage) -> None:
        self._real = real
        self._disk = disk

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def execute(self, sql: str, params: tuple[Any, ...] = (), /) -> SqliteCursor:
        if sql == "BEGIN IMMEDIATE":
            self._disk.limit(self._real)
        return self._real.execute(sql, params)

    def close(self) -> None:
        self._real.close()


class Do(Struct, frozen=True):
    """Do it."""


class Worker:
    """A tool that is at work while the disk fills up."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()

    async def work(self, args: Do, context: ToolContext) -> Outcome:
        self.started.set()
        await self.may_end.wait()
        return Completed(LONG)

    def setup(self) -> Setup:
        model = ScriptedModel({WORK: [(call("work"),), (say("worked"),)]})
        return Setup(model=model, open_workplaces=fixed_tools([self.tool()]))

    def tool(self) -> Tool[Do]:
        return Tool("work", Do, self.work, effect="idempotent")


@asynccontextmanager
async def open_limited(data: Path, disk: LastPage, setup: Setup) -> AsyncIterator[Runtime]:
    """As `open_runtime` does, on a file that cannot grow when the disk says so."""
    clock, rng = SystemClock(), SystemRng()
    ids, owners = Ids(clock, rng), FlockOwners(data / "owners", f"{rng.below(2**64):016x}")
    async with (
        open_sqlite(data / FILE, clock=clock, rng=rng, ids=ids, connect=disk.connect) as database,
        start_runtime(Backend(database, owners, clock, rng, ids), setup) as runtime,
    ):
        yield runtime
    owners.close()


class Sender:
    """Sends prompts, remembers what was acknowledged and what was refused."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.stage = Stage()
        self.refused: dict[str, str] = {}

    async def session(self) -> SessionId:
        session = await self.runtime.create_session()
        self.stage.sessions.append(session.id)
        return session.id

    async def send(self, session_id: SessionId, text: str, key: str) -> bool:
        """Whether it was acknowledged. A refusal says what is wrong."""
        try:
            message_id = await self.runtime.send(session_id, text, key=key)
        except StoreError as error:
            if FULL not in str(error):
                raise Violation(f"the disk is full, and that is all that is said: {error}") from error
            self.refused[key] = text
            return False
        self.stage.prompts[message_id] = text
        self.refused.pop(key, None)
        return True

    async def fill_up(self, session_id: SessionId) -> None:
        """What was reserved before may still be written to: go on until there is nothing left."""
        for number in range(MOST_PROMPTS):
            if not await self.send(session_id, f"{number} {LONG}", f"key{number}"):
                return
        raise Violation(f"{MOST_PROMPTS} prompts were acknowledged on a full disk")


async def go_through(runtime: Runtime, worker: Worker, disk: Disk) -> Stage:
    """Before, while it is full, and after, in one process; raises `Violation`."""
    sender = Sender(runtime)
    talk, work = await sender.session(), await sender.session()
    await sender.send(talk, "before", "before")
    await sender.send(work, WORK, WORK)
    await worker.started.wait()

    disk.fill()
    await sender.fill_up(talk)
    worker.may_end.set()
    await _dropped(runtime)
    if await sender.send(talk, f"once more {LONG}", "more"):
        raise Violation("the disk had no room, and then it had")
    if not await runtime.messages(talk):
        raise Violation("nothing can be read while the disk is full")

    disk.free()
    for key, text in list(sender.refused.items()):
        if not await sender.send(talk, text, key):
            raise Violation("there is room again, and it is not used")
    answer = await runtime.prompt(talk, "after")
    if answer.text != "ok":
        raise Violation(f"the answer is {answer}")
    await _rest(runtime)
    said = (await runtime.messages(work))[-1].text
    if said != "worked":
        raise Violation(f"the work that the full disk interrupted ended with {said!r}")
    return sender.stage


async def _dropped(runtime: Runtime) -> None:
    """Until the run whose tool has ended cannot be kept: what it wrote was refused."""
    try:
        await wait_until(lambda: runtime.trouble, seconds=REST_SECONDS)  # a run that is dropped tells nobody
    except TimeoutError:
        raise Violation("a run went on though nothing could be written") from None


async def _rest(runtime: Runtime) -> None:
    try:
        await wait_until_all_rest(runtime, seconds=REST_SECONDS)
    except TimeoutError:
        raise Violation(f"I6: not at rest: {await runtime.statuses()}") from None


async def fill_small_disk(directory: Path) -> None:
    """The directory is a disk of its own of a few megabytes."""
    worker = Worker()
    setup = worker.setup()
    async with open_runtime(directory, model=setup.model, tools=[worker.tool()]) as runtime:
        stage = await go_through(runtime, worker, SmallDisk(directory))
    check(stage, directory / FILE)


async def fill_last_page(directory: Path) -> None:
    worker, disk = Worker(), LastPage()
    async with open_limited(directory, disk, worker.setup()) as runtime:
        stage = await go_through(runtime, worker, disk)
    check(stage, directory / FILE)


if __name__ == "__main__":
    asyncio.run(fill_small_disk(Path(sys.argv[1])))
