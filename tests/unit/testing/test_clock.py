"""The test clocks move only as told."""

import asyncio

from asyncagents.testing.clock import FakeClock, LoopClock, SeededRng
from asyncagents.testing.simloop import simulate


def test_a_fake_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(1_000)
    assert clock.now() == clock.now() == 1_000
    clock.advance(250)
    assert clock.now() == 1_250
    clock.advance(-1_250)
    assert clock.now() == 0
    clock.set(42)
    assert clock.now() == 42


def test_a_loop_clock_passes_with_virtual_time() -> None:
    async def main() -> list[int]:
        clock = LoopClock(asyncio.get_running_loop(), start_ms=500)
        seen = [clock.now()]
        for seconds in (0.001, 0.57, 3600):
            await asyncio.sleep(seconds)
            seen.append(clock.now())
        return seen

    assert simulate(main, seed=1) == [500, 501, 1_071, 3_601_071]


def test_a_loop_clock_measures_sleeps_to_the_millisecond() -> None:
    async def main() -> list[int]:
        clock = LoopClock(asyncio.get_running_loop())
        wrong = []
        for ms in range(1, 1_000):
            before = clock.now()
            await asyncio.sleep(ms / 1000)
            if clock.now() - before != ms:
                wrong.append(ms)
        return wrong

    assert simulate(main, seed=1) == []


def test_a_seeded_rng_repeats_itself() -> None:
    first, again, other = SeededRng(7), SeededRng(7), SeededRng(8)
    numbers = [first.below(10) for _ in range(50)]
    assert numbers == [again.below(10) for _ in range(50)]
    assert numbers != [other.below(10) for _ in range(50)]
    assert set(numbers) <= set(range(10))
