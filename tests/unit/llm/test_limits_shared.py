"""What a provider allows is shared by the processes that use it, and given back to those who stay."""

import asyncio

import pytest

from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.limits import Limits
from asyncagents.testing.clock import FakeClock, SeededRng

MODEL = ModelRef(provider_id="p", model_id="m")


class Crowd:
    def __init__(self, allowed: int, peer_count: int) -> None:
        self.peer_count = peer_count
        self.limits = Limits(
            clock=FakeClock(),
            rng=SeededRng(1),
            concurrency=lambda model: allowed,
            peer_count=lambda: self.peer_count,
        )
        self.open = 0

    async def take(self) -> None:
        await self.limits.slot(MODEL)
        self.open += 1


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.spec("X-10")
@pytest.mark.parametrize(
    ("allowed", "peer_count", "mine"), [(8, 1, 8), (8, 2, 4), (8, 3, 2), (8, 100, 1), (1, 5, 1)]
)
async def test_each_process_has_its_share_of_the_slots_and_at_least_one(
    allowed: int, peer_count: int, mine: int
) -> None:
    crowd = Crowd(allowed, peer_count)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(crowd.take()) for _ in range(20)]
        await settle()
        assert crowd.open == mine
        assert crowd.limits.is_full(MODEL)
        for task in tasks:
            task.cancel()


async def test_a_waiting_request_gets_a_slot_when_another_process_has_ended() -> None:
    crowd = Crowd(8, 4)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(crowd.take()) for _ in range(20)]
        await settle()
        assert crowd.open == 2
        crowd.peer_count = 2
        crowd.limits.redistribute_slots()
        await settle()
        assert crowd.open == 4
        for task in tasks:
            task.cancel()


async def test_a_slot_given_to_a_cancelled_request_goes_to_the_next_one() -> None:
    crowd = Crowd(1, 1)
    first = await crowd.limits.slot(MODEL)
    async with asyncio.TaskGroup() as group:
        leaves, stays = group.create_task(crowd.take()), group.create_task(crowd.take())
        await settle()
        first.release()
        leaves.cancel()  # in the same moment in which it gets its place
        await stays
    assert crowd.open == 1
