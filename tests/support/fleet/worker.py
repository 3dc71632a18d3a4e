"""A worker among several that share a database: what it does to the world stands in a ledger.

`tests.support.fleet.crew` starts, kills, stops, disconnects or drains it. Prompts name their
session and themselves, and may want something done: `<s3:p17> pay`. Results of jobs are marked like that too.
"""

import asyncio
import logging
import os
import random
import re
import signal
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from asyncagents import Completed, Tool, ToolContext, async_tool
from asyncagents.app.assemble import Setup, start_runtime
from asyncagents.app.backend import PolledDatabase, open_postgres_backend
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.fleet import Fleet
from asyncagents.domain.session_state import Snapshot
from asyncagents.engine.observer import NoopObserver, ObserverSpan
from asyncagents.engine.run import Run
from asyncagents.engine.tool import AnyTool, Outcome
from asyncagents.errors import ClaimLost
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    ModelTurn,
    RequestMessage,
    StepFinish,
    StreamFinish,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
    ToolTurn,
    UserTurn,
)
from asyncagents.store.tx import Commit, Tx, Verb

T = TypeVar("T")
What: TypeAlias = Literal[
    "up", "claimed", "asked", "effect", "tick", "cut short", "job", "stale", "drained", "stopped"
]
POOL = "p"
MARK = re.compile(r"<(s\d+):([pr][\w.]+)>")
WISH = re.compile(r"<s\d+:p(\d+)> (\w+)(?: (\d+))?")
TICK_SECONDS = 0.02


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    what: What
    worker: int
    at: int
    """Microseconds, by the clock that all processes here share."""
    session: str = ""
    call: str = ""
    tool: str = ""
    fence: int = 0
    marks: tuple[str, ...] = ()
    """The marks that a request of the model shows, in their order."""


class Ledger:
    """The world: a file that all append to, a write a line, so that its order is the order of events."""

    def __init__(self, path: Path, worker: int) -> None:
        self._worker = worker
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, what: What, **more: Any) -> None:
        line = Line(what=what, worker=self._worker, at=now(), **more)
        # A kill may tear a line at a page's end: the next one begins on a line of its own all the same.
        os.write(self._fd, b"\n" + msgspec.json.encode(line) + b"\n")


class Reader:
    """Follows a ledger: each look gives what was written since the last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def news(self) -> Iterator[Line]:
        """Without lines that a kill tore."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            whole, end, _ = file.read().rpartition(b"\n")
        self._at += len(whole) + len(end)
        for raw in whole.split(b"\n"):
            try:
                yield msgspec.json.decode(raw, type=Line)
            except msgspec.DecodeError:
                continue


def now() -> int:
    return time.time_ns() // 1_000


class Orders(Struct, frozen=True, kw_only=True):
    """What a process shall be."""

    store: str
    ledger: Path
    stderr: Path
    """Takes its standard error."""
    number: int
    seed: int = 0
    heartbeat: float = 2.0
    concurrency: int = 16
    think: float = 0.02
    """So long, at most, the model takes to answer."""


def marks(messages: object) -> tuple[str, ...]:
    """Of what a model was told, as it reads it."""
    assert isinstance(messages, list | tuple)
    texts = (each.output if isinstance(each, ToolTurn) else _text(each) for each in messages)
    return tuple(f"{found[1]}:{found[2]}" for text in texts for found in MARK.finditer(text))


def _text(told: RequestMessage) -> str:
    return told.text if isinstance(told, UserTurn) else ""


class ObedientModel:
    """Does what the newest prompts wish, a call each; then it says so."""

    def __init__(self, ledger: Ledger, orders: Orders) -> None:
        self._ledger = ledger
        self._think = orders.think
        self._rng = random.Random(f"model:{orders.seed}:{orders.number}")

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        shown = marks(request.messages)
        self._ledger.write("asked", session=shown[0].partition(":")[0] if shown else "", marks=shown)
        yield StreamStart()
        await asyncio.sleep(self._rng.random() * self._think)
        for number, (n, wish, much) in enumerate(_wishes(request)):
            key = f"c{len(request.messages)}_{number}"
            yield ToolCallStart(key, wish)
            yield ToolCallReady(key, wish, {"n": n, "much": much})
        yield TextStart("t")
        yield TextDelta("t", "done")
        yield TextEnd("t")
        yield StepFinish("stop")
        yield StreamFinish()


def _wishes(request: ChatRequest) -> Iterator[tuple[int, str, int]]:
    """Of what was said since the last step. No two of them are alike, by their `n`."""
    new: list[str] = []
    for told in reversed(request.messages):
        if isinstance(told, ModelTurn):
            break
        new.insert(0, _text(told))
    for text in new:
        if (found := WISH.search(text)) and found[2] != "say":
            yield int(found[1]), found[2], int(found[3] or 0)


class Do(Struct, frozen=True):
    """Do something: `much` are milliseconds."""

    n: int
    much: int = 0


def enough(ledger: Path) -> Path:
    """Once this file is there, whoever ticks may end."""
    return ledger.with_name("enough")


def tools(ledger: Ledger, over: Path) -> tuple[AnyTool, ...]:
    async def pay(args: Do, context: ToolContext) -> Outcome:
        await asyncio.sleep(args.much / 2000)
        ledger.write("effect", session=context.session_id, call=context.call_id, tool="pay")
        await asyncio.sleep(args.much / 2000)
        return Completed("paid")

    async def freeze(args: Do, context: ToolContext) -> Outcome:
        """Stops its own process: what it returns afterwards is written by one that others think is dead."""
        ledger.write("effect", session=context.session_id, call=context.call_id, tool="freeze")
        os.kill(os.getpid(), signal.SIGSTOP)
        return Completed("paid")

    async def tick(args: Do, context: ToolContext) -> Outcome:
        """Does something to the world, again and again, until that is enough or it is told to end."""
        try:
            while not over.exists():  # noqa: ASYNC240  it is on this machine
                ledger.write("tick", session=context.session_id, call=context.call_id)
                await asyncio.sleep(TICK_SECONDS)
        except asyncio.CancelledError:
            ledger.write("cut short", session=context.session_id, call=context.call_id)
            raise
        return Completed("ticked")

    @async_tool
    async def job(n: int, much: int, context: ToolContext) -> str:
        """Begin something that takes long; its result may be in before this has returned."""
        ledger.write("job", session=context.session_id, call=context.pending_id)
        await asyncio.sleep(much / 1000)
        return "begun"

    return (
        Tool("pay", Do, pay),
        Tool("put", Do, pay, effect="idempotent"),
        Tool("freeze", Do, freeze),
        Tool("tick", Do, tick),
        Tool("again", Do, tick, effect="idempotent"),
        job,
    )


class Claims(NoopObserver):
    """Sees each claim that came through."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def run_span(self, run: Run, snapshot: Snapshot) -> ObserverSpan:
        self._ledger.write("claimed", session=run.session_id, fence=snapshot.control.fence)
        return super().run_span(run, snapshot)


class Witness:
    """Between engine and database: sees the writes that were refused, whoever still waits for them."""

    def __init__(self, database: PolledDatabase, ledger: Ledger) -> None:
        self._database = database
        self._ledger = ledger

    async def write(self, verb: Verb[T], *, inline: bool = False) -> T:
        async def seen(tx: Tx) -> T:
            try:
                return await verb(tx)
            except ClaimLost as refused:
                self._ledger.write("stale", session=refused.session_id)
                raise

        return await self._database.write(seen, inline=inline)

    async def read(self, verb: Verb[T], *, inline: bool = False) -> T:
        return await self._database.read(verb, inline=inline)

    def listen(self, listener: Callable[[Commit], None]) -> None:
        self._database.listen(listener)

    def poll(self) -> None:
        self._database.poll()


def live(orders: Orders, parent: Connection) -> None:
    """Until the parent says a word, or is gone."""
    with orders.stderr.open("wb") as said:
        os.dup2(said.fileno(), 2)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    asyncio.run(_live(orders, parent))


async def _live(orders: Orders, parent: Connection) -> None:
    ledger = Ledger(orders.ledger, orders.number)
    fleet = Fleet(
        store=orders.store,
        pool=POOL,
        pools=(POOL,),
        heartbeat_seconds=orders.heartbeat,
        concurrency=orders.concurrency,
        kind="worker",
    )
    setup = Setup(
        model=ObedientModel(ledger, orders),
        open_workplaces=fixed_tools(tools(ledger, enough(orders.ledger))),
        observer=Claims(ledger),
        serve=True,
    )
    drain = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, drain.set)
    async with (
        open_postgres_backend(fleet) as world,
        start_runtime(replace(world, database=Witness(world.database, ledger)), setup) as runtime,
        asyncio.TaskGroup() as group,
    ):

        async def drained() -> None:
            await drain.wait()
            await runtime.drain(0)
            ledger.write("drained")

        waiting = group.create_task(drained())
        ledger.write("up")
        await asyncio.to_thread(_wait, parent)
        waiting.cancel()
    ledger.write("stopped")


def _wait(parent: Connection) -> None:
    try:
        parent.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
