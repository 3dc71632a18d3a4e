"""Concurrency limits and cool-downs of models."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from asyncagents.domain.clock import Clock, Rng
from asyncagents.domain.conversation.message import ModelRef

Concurrency: TypeAlias = Callable[[ModelRef], int]
"""Returns how many requests may be open to a model at once."""
DEFAULT_CONCURRENCY = 64


def default_concurrency(model: ModelRef) -> int:
    return DEFAULT_CONCURRENCY


class Lane:
    """The slots of one model, granted first come, first served; their number may change."""

    def __init__(self, places: Callable[[], int]) -> None:
        self._places = places
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def is_full(self) -> bool:
        return self._taken >= self._places() or any(not each.done() for each in self._waiting)

    async def acquire(self) -> None:
        if not self.is_full():
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot had been granted
            raise
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)

    def release(self) -> None:
        self._taken -= 1
        self.grant_slots()

    def grant_slots(self) -> None:
        """Grant free slots to the next waiters."""
        while self._waiting and self._taken < self._places():
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)


class Slot:
    """One slot of a model; `release` is idempotent."""

    __slots__ = ("_lane",)

    def __init__(self, lane: Lane) -> None:
        self._lane: Lane | None = lane

    def release(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.release()


class Limits:
    """The slots and the cool-down of each provider and model."""

    def __init__(
        self,
        *,
        clock: Clock,
        rng: Rng,
        concurrency: Concurrency = default_concurrency,
        peer_count: Callable[[], int] = lambda: 1,
    ) -> None:
        """`peer_count`: how many processes share the limit; each gets an equal part, at least one slot."""
        self._peer_count = peer_count
        self._clock = clock
        self._rng = rng
        self._concurrency = concurrency
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._cool: dict[tuple[str, str], tuple[int, int]] = {}

    def is_full(self, model: ModelRef) -> bool:
        """Return whether a request would have to wait for a slot."""
        return self._lane(model).is_full()

    async def slot(self, model: ModelRef) -> Slot:
        lane = self._lane(model)
        await lane.acquire()
        return Slot(lane)

    def _lane(self, model: ModelRef) -> Lane:
        key = model.provider_id, model.model_id
        if key not in self._lanes:
            allowed = self._concurrency(model)
            self._lanes[key] = Lane(lambda: max(1, allowed // self._peer_count()))
        return self._lanes[key]

    def redistribute_slots(self) -> None:
        """Grant slots again after the number of processes changed."""
        for lane in self._lanes.values():
            lane.grant_slots()

    def cool_down(self, model: ModelRef, *, until: int) -> None:
        """Start a cool-down after a rate limit: no request to this model before `until`, in ms."""
        key, now = (model.provider_id, model.model_id), self._clock.now()
        if until > self._cool.get(key, (0, 0))[0]:
            self._cool[key] = until, until - now

    def wait_until(self, model: ModelRef) -> int:
        """Return when to send a request, in ms since the epoch, with random jitter; 0: now."""
        until, length = self._cool.get((model.provider_id, model.model_id), (0, 0))
        if until <= self._clock.now():
            return 0
        return until + self._rng.below(max(500, length // 4))
