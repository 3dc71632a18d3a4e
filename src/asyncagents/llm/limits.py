"""How many requests a model takes at once, and when it wants to be left alone."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from asyncagents.domain.message import ModelRef
from asyncagents.domain.port import Clock, Rng

Concurrency: TypeAlias = Callable[[ModelRef], int]
"""How many requests may be open to a model at once."""
AT_ONCE = 64


def default_concurrency(model: ModelRef) -> int:
    return AT_ONCE


class Slot:
    """One place at a model; given back once, however often it is said."""

    __slots__ = ("_lane",)

    def __init__(self, lane: asyncio.Semaphore) -> None:
        self._lane: asyncio.Semaphore | None = lane

    def release(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.release()


class Limits:
    """For each provider and model: places, in the order in which they were asked for, and a cool-down."""

    def __init__(self, *, clock: Clock, rng: Rng, concurrency: Concurrency = default_concurrency) -> None:
        self._clock = clock
        self._rng = rng
        self._concurrency = concurrency
        self._lanes: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._cool: dict[tuple[str, str], tuple[int, int]] = {}

    def crowded(self, model: ModelRef) -> bool:
        """Whether one would have to wait for a slot."""
        return self._lane(model).locked()

    async def slot(self, model: ModelRef) -> Slot:
        lane = self._lane(model)
        await lane.acquire()
        return Slot(lane)

    def _lane(self, model: ModelRef) -> asyncio.Semaphore:
        key = model.provider_id, model.model_id
        if key not in self._lanes:
            self._lanes[key] = asyncio.Semaphore(self._concurrency(model))
        return self._lanes[key]

    def cool(self, model: ModelRef, *, until: int) -> None:
        """The provider said that it is too much: nobody asks this model before then."""
        key, now = (model.provider_id, model.model_id), self._clock.now()
        if until > self._cool.get(key, (0, 0))[0]:
            self._cool[key] = until, until - now

    def wait_until(self, model: ModelRef) -> int:
        """When to ask, in ms since the epoch; 0: now. Those who wait do not all come back at once."""
        until, length = self._cool.get((model.provider_id, model.model_id), (0, 0))
        if until <= self._clock.now():
            return 0
        return until + self._rng.below(max(500, length // 4))
