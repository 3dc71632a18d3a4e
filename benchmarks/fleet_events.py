"""Texts that grow in one process, heard in another: how late the first piece is, and what many cost."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from msgspec import Struct

from asyncagents import PartDelta, PartUpdated, Runtime
from asyncagents.domain.conversation.part import TextPart
from asyncagents.domain.event import Event
from asyncagents.domain.id import SessionId
from asyncagents.store.postgres.control_connection import LIVE_CHANNEL, NEWS_CHANNEL
from benchmarks.fleet_stage import Stage, a_stage, evenly, share
from benchmarks.fleet_worker import Orders
from benchmarks.report import Figure
from tests.support.postgres.database import Server

PROMPTS = 200
RATE = 10.0
STREAMS = 200
WORDS = 100
GAP = 0.05
HEARTBEAT = 2.0
"""Who runs sessions knows soon whether anybody listens elsewhere."""
LISTENERS = "SELECT COUNT(*) FROM worker WHERE listens"


class Ears:
    """All that one listener hears, as a client of the event stream does."""

    def __init__(self) -> None:
        self.first: dict[SessionId, float] = {}
        """How old the first piece of a session's text was, in milliseconds: it says when it was made."""
        self.pieces = 0

    async def hear(self, runtime: Runtime) -> None:
        async with runtime.events() as events:
            async for event in events:
                self._heard(event, time.time_ns())

    def _heard(self, event: Event, at: int) -> None:
        if isinstance(event, PartDelta):
            self.pieces += 1
            self._said(event.session_id, event.delta, at)
        elif isinstance(event, PartUpdated) and isinstance(event.part, TextPart):
            self._said(event.session_id, event.part.text, at)

    def _said(self, session_id: SessionId, text: str, at: int) -> None:
        made = text.partition(" ")[0]
        if session_id not in self.first and made.isdigit():
            self.first[session_id] = (at - int(made)) / 1e6


class Cost(Struct, frozen=True):
    """Of streams that run at the same time, for a second: CPU in seconds, the rest counted."""

    worker: float
    listener: float
    postgres: float
    payloads: float
    bytes: float
    news: float
    pieces: float


class Wire:
    """What is told to all processes: counted by one that does nothing else with it."""

    def __init__(self) -> None:
        self.payloads = self.bytes = self.news = 0

    async def listen(self, stage: Stage) -> None:
        await stage.admin.add_listener(LIVE_CHANNEL, self._live)
        await stage.admin.add_listener(NEWS_CHANNEL, self._news)

    def _live(self, connection: object, pid: int, channel: str, payload: str) -> None:
        self.payloads += 1
        self.bytes += len(payload)

    def _news(self, connection: object, pid: int, channel: str, payload: str) -> None:
        self.news += 1


@asynccontextmanager
async def _listening(stage: Stage) -> AsyncIterator[Ears]:
    """Begins when whoever runs sessions knows that somebody listens here."""
    ears = Ears()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ears.hear(stage.runtime))
        while not await stage.admin.fetchval(LISTENERS):  # noqa: ASYNC110  another process ends it
            await asyncio.sleep(0.05)
        await asyncio.sleep(HEARTBEAT)
        yield ears
        task.cancel()


async def _first(stage: Stage, prompts: int) -> list[float]:
    """Prompted at the worker, by a gentle rate."""
    sessions = await stage.sessions(prompts)
    async with _listening(stage) as ears:
        await evenly([partial(stage.workers[0].send, each, "hi") for each in sessions], RATE)
        await stage.rest()
        await asyncio.sleep(1)  # for what is on its way
    if missed := set(sessions) - set(ears.first):
        raise ValueError(f"of {len(missed)} sessions nothing was heard")
    return [ears.first[each] for each in sessions]


async def _cost(stage: Stage, ears: Ears, wire: Wire) -> Cost:
    sessions = await stage.sessions(STREAMS)
    before, wall = await _taken(stage, ears, wire), time.perf_counter()
    await asyncio.gather(*(stage.runtime.send(each, "hi") for each in sessions))
    await stage.rest()
    wall, after = time.perf_counter() - wall, await _taken(stage, ears, wire)
    return Cost(*((late - early) / wall for early, late in zip(before, after, strict=True)))


async def _taken(stage: Stage, ears: Ears, wire: Wire) -> tuple[float, ...]:
    (told,) = await stage.told()
    listener, postgres = time.process_time(), await stage.postgres_cpu()
    return told.cpu, listener, postgres, wire.payloads, wire.bytes, wire.news, ears.pieces


async def measure(server: Server, *, prompts: int = PROMPTS, words: int = WORDS) -> list[Figure]:
    talk = Orders(store="", words=20, gap=GAP, heartbeat=HEARTBEAT, concurrency=2 * STREAMS)
    async with a_stage(server, talk) as stage:
        first = await _first(stage, prompts)
    much = Orders(store="", words=words, gap=GAP, heartbeat=HEARTBEAT, concurrency=2 * STREAMS)
    async with a_stage(server, much) as stage:
        wire = Wire()
        await wire.listen(stage)
        unheard = await _cost(stage, Ears(), wire)
        async with _listening(stage) as ears:
            heard = await _cost(stage, ears, wire)
    return [
        Figure(
            f"first piece of text that another process streams, {RATE:g} a second: p50",
            share(first, 0.5),
            "ms",
        ),
        Figure("… p99", share(first, 0.99), "ms"),
        Figure(
            f"{STREAMS} streams of {1 / GAP:g} pieces a second: pieces that another process receives",
            heard.pieces,
            "1/s",
        ),
        Figure("… notifications of texts", heard.payloads, "1/s"),
        Figure("… bytes of them", heard.bytes / 1e3, "kB/s"),
        Figure("… notifications of commits", heard.news, "1/s"),
        Figure("… CPU of the worker", heard.worker * 1e3, "ms/s"),
        Figure("… … without a listener", unheard.worker * 1e3, "ms/s"),
        Figure("… CPU of PostgreSQL", heard.postgres * 1e3, "ms/s"),
        Figure("… … without a listener", unheard.postgres * 1e3, "ms/s"),
        Figure("… CPU of the listener", heard.listener * 1e3, "ms/s"),
    ]
