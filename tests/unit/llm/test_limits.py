"""Places at a model, in order, and a cool-down that everybody keeps."""

import asyncio

from asyncagents.domain.conversation.message import ModelRef
from asyncagents.llm.limits import Limits
from asyncagents.testing.clock import FakeClock, SeededRng

MODEL = ModelRef(provider_id="p", model_id="m")
OTHER = ModelRef(provider_id="p", model_id="other")


def limits(clock: FakeClock, at_once: int = 1) -> Limits:
    return Limits(clock=clock, rng=SeededRng(1), concurrency=lambda model: at_once)


async def test_slots_are_given_in_the_order_of_the_requests() -> None:
    lanes, order = limits(FakeClock()), []

    async def ask(number: int) -> None:
        slot = await lanes.slot(MODEL)
        order.append(number)
        await asyncio.sleep(0)
        slot.release()

    await asyncio.gather(*(ask(number) for number in range(5)))
    assert order == [0, 1, 2, 3, 4]


async def test_a_second_release_of_a_slot_has_no_effect() -> None:
    lanes = limits(FakeClock())
    slot = await lanes.slot(MODEL)
    assert lanes.is_full(MODEL)
    assert not lanes.is_full(OTHER)
    slot.release()
    slot.release()
    await lanes.slot(MODEL)
    assert lanes.is_full(MODEL)


async def test_a_cancelled_wait_in_the_queue_takes_no_slot() -> None:
    lanes = limits(FakeClock())
    slot = await lanes.slot(MODEL)
    waiting = asyncio.ensure_future(lanes.slot(MODEL))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    slot.release()
    assert not lanes.is_full(MODEL)


def test_a_cool_down_holds_for_one_model_and_spreads_the_next_requests() -> None:
    clock = FakeClock(1_000)
    lanes = limits(clock)
    lanes.cool_down(MODEL, until=61_000)
    lanes.cool_down(MODEL, until=31_000)
    untils = {lanes.wait_until(MODEL) for _ in range(50)}
    assert (min(untils) >= 61_000) is True
    assert (max(untils) < 76_000) is True
    assert (len(untils) > 10) is True
    assert lanes.wait_until(OTHER) == 0
    clock.advance(60_000)
    assert lanes.wait_until(MODEL) == 0
