"""Processes around an async tool, each of them killed sooner or later: agents, and whoever sends results.

An agent serves a data directory; a courier reads from the ledger which jobs were begun and sends their
results, to the runtime of its own process: one that serves, or one that only signals.
"""

import asyncio
import os
import random
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from asyncagents import Runtime, ToolContext, async_tool, open_runtime
from asyncagents.engine.tool import AnyTool
from asyncagents.errors import AlreadySettled
from tests.support.kills.task_worker import MODEL, local_config

Role: TypeAlias = Literal["agent", "both", "courier"]
What: TypeAlias = Literal["up", "job", "sending", "acknowledged", "refused", "killing", "stopped"]
LOOK_SECONDS = 0.004


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    what: What
    worker: int
    call: str = ""
    text: str = ""
    """The result that was sent."""


class Ledger:
    """Outside the database: a file that all append to, a write a line; what was acknowledged is synced."""

    def __init__(self, path: Path, worker: int) -> None:
        self._worker = worker
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, what: What, *, call: str = "", text: str = "") -> None:
        line = Line(what=what, worker=self._worker, call=call, text=text)
        # A kill may tear a line at a page's end: the next one begins on a line of its own all the same.
        os.write(self._fd, b"\n" + msgspec.json.encode(line) + b"\n")
        if what == "acknowledged":
            os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)


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


class Orders(Struct, frozen=True, kw_only=True):
    """What a process shall be."""

    data: Path
    ledger: Path
    stderr: Path
    """Takes its standard error."""
    url: str
    number: int
    seed: int
    role: Role


def job_tool(ledger: Ledger) -> AnyTool:
    """Whoever reads the ledger may have the result before this tool has said that it waits for it.

    No two calls of a step are alike, by their `n`: a person would be asked about the third.
    """

    @async_tool
    async def job(n: int, ms: int, context: ToolContext) -> str:
        """Begin something that takes long."""
        ledger.write("job", call=context.pending_id)
        await asyncio.sleep(ms / 1000)
        return "begun"

    return job


class Courier:
    """Sends the result of each job until it is acknowledged, often twice, at times another one."""

    def __init__(self, runtime: Runtime, ledger: Ledger, rng: random.Random) -> None:
        self._runtime = runtime
        self._ledger = ledger
        self._rng = rng
        self._acknowledged: set[str] = set()
        self._begun: set[str] = set()

    async def deliver(self, reader: Reader) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                lost = [call.id for call in await self._runtime.async_tools.waiting_calls()]
                jobs = self._read(reader)
                for call_id in [*jobs, *(each for each in lost if each not in self._begun)]:
                    if call_id not in self._acknowledged or self._rng.random() < 0.1:
                        group.create_task(self._send(call_id))
                self._begun.update(lost)
                await asyncio.sleep(LOOK_SECONDS)

    def _read(self, reader: Reader) -> list[str]:
        """New jobs. One that waits and was not begun is lost: its process died before it could begin it."""
        jobs: list[str] = []
        for line in reader.news():
            if line.what == "job":
                jobs.append(line.call)
            elif line.what == "acknowledged":
                self._acknowledged.add(line.call)
        self._begun.update(jobs)
        return jobs

    async def _send(self, call_id: str) -> None:
        """At once, while the tool has not returned; or later, when the session waits."""
        for _ in range(self._rng.choice([1, 1, 2, 3])):
            await asyncio.sleep(self._rng.choice([0, 0.02, 0.1, 0.3]) * self._rng.random())
            await self._submit(call_id, self._rng.choices(["one", "two", "fail"], [8, 1, 1])[0])

    async def _submit(self, call_id: str, variant: str) -> None:
        text = f"<{call_id} {variant}>"
        self._ledger.write("sending", call=call_id, text=text)
        try:
            if variant == "fail":
                await self._runtime.async_tools.submit_error(call_id, text)
            else:
                await self._runtime.async_tools.submit_result(call_id, text)
        except AlreadySettled:
            self._ledger.write("refused", call=call_id, text=text)
        else:
            self._ledger.write("acknowledged", call=call_id, text=text)


def live(orders: Orders, parent: Connection) -> None:
    """Until the parent says a word, or is gone."""
    with orders.stderr.open("wb") as said:
        os.dup2(said.fileno(), 2)
    asyncio.run(_live(orders, parent))


async def _live(orders: Orders, parent: Connection) -> None:
    ledger = Ledger(orders.ledger, orders.number)
    async with open_runtime(
        orders.data,
        model=MODEL,
        config=local_config(orders.data, orders.url, key=str(orders.number)),
        tools=[job_tool(ledger)],
        serve=orders.role != "courier",
    ) as runtime:
        ledger.write("up")
        async with asyncio.TaskGroup() as group:
            rng = random.Random(f"courier:{orders.seed}:{orders.number}")
            courier = Courier(runtime, ledger, rng)
            work = group.create_task(
                courier.deliver(Reader(orders.ledger)) if orders.role != "agent" else asyncio.sleep(0)
            )
            await asyncio.to_thread(_wait, parent)
            work.cancel()


def _wait(parent: Connection) -> None:
    try:
        parent.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
