"""A process of a fleet: works on the sessions of a database, and tells what that took.

`python -m benchmarks.fleet_worker`: the first line of its standard input are its orders, the others are what
it is to do; each is answered by a line. It ends when there are no more.
"""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import nullcontext

import msgspec
import uvloop
from msgspec import Struct

from asyncagents import Runtime
from asyncagents.app.assemble import Setup, start_runtime
from asyncagents.app.backend import open_postgres_backend
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.fleet import Fleet
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Snapshot
from asyncagents.engine.observer import NoopObserver, ObserverSpan
from asyncagents.engine.run import Run
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    StepFinish,
    StreamFinish,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
)
from benchmarks.fleet_tally import Tally, Times
from benchmarks.parked import MODEL, TOOLS, memory

POOL = "bench"
UNLIMITED = 100_000
"""Requests to the model at once: its provider is not what is measured."""
WORD = " word"


class Orders(Struct, frozen=True, kw_only=True):
    store: str
    pool: str = POOL
    concurrency: int = 64
    heartbeat: float = 10.0
    seconds: float = 0.0
    """So long the model thinks before it answers."""
    words: int = 0
    """It says the time, in nanoseconds, and then so many words. 0: it says "ok"."""
    gap: float = 0.0
    """Seconds between two of them."""
    tally: bool = False
    """Whether statements are counted, which costs time."""


class Told(Struct, frozen=True):
    """So far."""

    cpu: float
    memory: float
    claims: list[tuple[SessionId, int]]
    """When each claim of a session came through, in nanoseconds."""
    statements: dict[str, Times] = {}


class Talker:
    def __init__(self, orders: Orders) -> None:
        self._orders = orders

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        yield StreamStart()
        await asyncio.sleep(self._orders.seconds)
        yield TextStart("t")
        yield TextDelta("t", str(time.time_ns()) if self._orders.words else "ok")
        for _ in range(self._orders.words):
            await asyncio.sleep(self._orders.gap)
            yield TextDelta("t", WORD)
        yield TextEnd("t")
        yield StepFinish("stop")
        yield StreamFinish()


class Claims(NoopObserver):
    def __init__(self) -> None:
        self.seen: list[tuple[SessionId, int]] = []

    def run_span(self, run: Run, snapshot: Snapshot) -> ObserverSpan:
        self.seen.append((run.session_id, time.time_ns()))
        return super().run_span(run, snapshot)


def fleet(orders: Orders) -> Fleet:
    return Fleet(
        store=orders.store,
        pool=orders.pool,
        pools=(orders.pool,),
        concurrency=orders.concurrency,
        heartbeat_seconds=orders.heartbeat,
        kind="worker",
    )


async def work(orders: Orders) -> None:
    claims, tally = Claims(), Tally()
    setup = Setup(
        model=Talker(orders) if orders.seconds or orders.words else MODEL,
        open_workplaces=fixed_tools(TOOLS),
        concurrency=lambda model: UNLIMITED,
        observer=claims,
    )
    counting = tally.counting() if orders.tally else nullcontext()
    with counting:
        async with open_postgres_backend(fleet(orders)) as world, start_runtime(world, setup) as runtime:
            await _obey(runtime, claims, tally)


async def _obey(runtime: Runtime, claims: Claims, tally: Tally) -> None:
    while runtime._dispatcher._next_look == float("inf"):  # noqa: ASYNC110  no event tells
        await asyncio.sleep(0.001)
    line = "tell"
    while line:
        _say(await _done(line.split(), runtime, claims, tally))
        line = await asyncio.to_thread(sys.stdin.readline)


async def _done(order: list[str], runtime: Runtime, claims: Claims, tally: Tally) -> object:
    match order:
        case ["tell"]:
            return Told(time.process_time(), memory(), claims.seen, tally.counted())
        case ["send", session_id, text]:
            await runtime.send(SessionId(session_id), text)
            return time.time_ns()
        case _:
            raise ValueError(f"nobody knows how to {order}")


def _say(what: object) -> None:
    sys.stdout.write(msgspec.json.encode(what).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    orders = msgspec.json.decode(sys.stdin.readline(), type=Orders)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work(orders))


if __name__ == "__main__":
    main()
