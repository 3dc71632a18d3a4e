"""A wake: a session at rest is given a prompt by one process, and claimed by another.

From the moment at which whoever signals has the acknowledgement, or at which it began to, to the one at which
the worker has the session: its claim is committed, and the turn begins. Both by the clock of this machine.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from asyncagents.domain.id import SessionId
from benchmarks.fleet_stage import Stage, a_stage, a_worker, evenly, share
from benchmarks.fleet_worker import Orders
from benchmarks.report import Figure
from tests.support.postgres.database import Server

WAKES = 400
RATE = 20.0
WARM = 40
HERD = 24
"""Workers of one pool, of which each wake is for one."""
Act: TypeAlias = Callable[[], Awaitable[object]]


class Signal(Struct, frozen=True):
    """Nanoseconds."""

    session_id: SessionId
    begun: int
    acknowledged: int


class Wakes(Struct, frozen=True):
    """Milliseconds."""

    acknowledged: list[float]
    """From the signal to its acknowledgement."""
    claimed: list[float]
    """From there to the claim; below zero if the worker was faster than the answer to whoever signals."""

    @property
    def whole(self) -> list[float]:
        return [sum(both) for both in zip(self.acknowledged, self.claimed, strict=True)]


class Herd(Struct, frozen=True):
    """CPU in seconds, a second."""

    wakes: Wakes
    workers: float
    postgres: float


async def _signal(session_id: SessionId, act: Act) -> Signal:
    begun = time.time_ns()
    await act()
    return Signal(session_id, begun, time.time_ns())


async def woken(stage: Stage, acts: Mapping[SessionId, Act], rate: float) -> Wakes:
    """Each act wakes the session that it stands for."""
    signals: list[Signal] = await evenly([partial(_signal, *each) for each in acts.items()], rate)
    await stage.rest()
    claims = await stage.claims()
    return Wakes(
        [(each.acknowledged - each.begun) / 1e6 for each in signals],
        [(claims[each.session_id] - each.acknowledged) / 1e6 for each in signals],
    )


async def _prompted(stage: Stage, wakes: int) -> Wakes:
    sessions = await stage.sessions(wakes)
    acts = {session_id: partial(stage.runtime.send, session_id, "hi") for session_id in sessions}
    return await woken(stage, acts, RATE)


async def _herd(server: Server, workers: int, wakes: int) -> Herd:
    async with a_stage(server, workers=workers) as stage:
        await _prompted(stage, WARM)
        before, begun = await _taken(stage), time.perf_counter()
        seen = await _prompted(stage, wakes)
        after, wall = await _taken(stage), time.perf_counter() - begun
    return Herd(seen, *((late - early) / wall for early, late in zip(before, after, strict=True)))


async def _taken(stage: Stage) -> tuple[float, float]:
    return sum(told.cpu for told in await stage.told()), await stage.postgres_cpu()


def figures(wakes: Wakes, *, wanted: bool) -> list[Figure]:
    """What comes after the row that says what was measured."""
    return [
        Figure("… p50", share(wakes.claimed, 0.5), "ms", "≤ 10" if wanted else ""),
        Figure("… p99", share(wakes.claimed, 0.99), "ms", "≤ 50" if wanted else ""),
        Figure("… from the signal on: p50", share(wakes.whole, 0.5), "ms"),
        Figure("… p99", share(wakes.whole, 0.99), "ms"),
        Figure("… the acknowledgement alone: p50", share(wakes.acknowledged, 0.5), "ms"),
        Figure("… p99", share(wakes.acknowledged, 0.99), "ms"),
    ]


async def measure(server: Server, *, wakes: int = WAKES) -> list[Figure]:
    async with a_stage(server) as stage, a_worker(Orders(store=stage.store, pool="elsewhere")) as idle:
        await _prompted(stage, WARM)
        before, begun = (await idle.tell()).cpu, time.perf_counter()
        seen = await _prompted(stage, wakes)
        looking = ((await idle.tell()).cpu - before) / (time.perf_counter() - begun)
    alone, many = await _herd(server, 1, wakes), await _herd(server, HERD, wakes)
    what = f"prompts to sessions at rest, {RATE:g} a second, acknowledged here and claimed by a worker"
    return [
        Figure(what, wakes, ""),
        *figures(seen, wanted=True),
        Figure("… CPU of a worker of another pool, which has nothing to do", looking * 1e3, "ms/s"),
        Figure(f"… with {HERD} workers of the same pool: p50", share(many.wakes.claimed, 0.5), "ms"),
        Figure("… … p99", share(many.wakes.claimed, 0.99), "ms"),
        Figure("… … CPU of each further worker", _more(many.workers - alone.workers), "ms/s"),
        Figure("… … CPU of PostgreSQL, for each", _more(many.postgres - alone.postgres), "ms/s"),
    ]


def _more(seconds: float) -> float:
    """For each further worker, in milliseconds."""
    return seconds / (HERD - 1) * 1e3
