"""The deadline of a silent stream, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from asyncagents.llm.watch import Watch
from asyncagents.testing.simloop import simulate


def ended_at(seconds: float, main: Callable[[Watch], Awaitable[None]]) -> float | None:
    """When the watch stopped the stream; None if it never did."""

    async def run() -> float | None:
        loop = asyncio.get_running_loop()
        stopped: list[float] = []
        watch = Watch(seconds, lambda: stopped.append(loop.time() - begun))
        begun = loop.time()
        await main(watch)
        watch.stop()
        assert watch.expired == bool(stopped)
        return stopped[0] if stopped else None

    return simulate(run, seed=1)


@pytest.mark.spec("C-05")
def test_silence_for_the_whole_time_ends_the_stream() -> None:
    async def silent(watch: Watch) -> None:
        watch.waiting = True
        await asyncio.sleep(100)

    assert ended_at(10, silent) == pytest.approx(10)


def test_every_word_puts_it_off() -> None:
    async def speaking(watch: Watch) -> None:
        for _ in range(20):
            watch.waiting = True
            await asyncio.sleep(9)
            watch.touch()
        await asyncio.sleep(100)

    assert ended_at(10, speaking) == pytest.approx(190)


def test_the_time_that_the_reader_takes_does_not_count() -> None:
    async def slow_reader(watch: Watch) -> None:
        await asyncio.sleep(1000)
        watch.touch()
        watch.waiting = True
        await asyncio.sleep(9)

    assert ended_at(10, slow_reader) is None


def test_zero_is_for_ever() -> None:
    async def silent(watch: Watch) -> None:
        watch.waiting = True
        await asyncio.sleep(1_000_000)

    assert ended_at(0, silent) is None


@pytest.mark.parametrize("seconds", [0.0, 300.0])
def test_once_the_answer_is_finished_its_last_words_must_come_soon(seconds: float) -> None:
    async def finished(watch: Watch) -> None:
        watch.waiting = True
        await asyncio.sleep(5)
        watch.limit(10)
        await asyncio.sleep(1000)

    assert ended_at(seconds, finished) == pytest.approx(15)


def test_a_limit_is_late_though_the_stream_never_falls_silent() -> None:
    async def run() -> list[bool]:
        watch = Watch(300, lambda: None)
        seen = [watch.late]
        watch.limit(10)
        for _ in range(4):
            await asyncio.sleep(3)
            watch.touch()
            seen.append(watch.late)
        watch.stop()
        return seen

    assert simulate(run, seed=1) == [False, False, False, False, True]


def test_a_limit_never_makes_it_longer() -> None:
    async def finished(watch: Watch) -> None:
        watch.waiting = True
        watch.limit(10)
        await asyncio.sleep(1000)

    assert ended_at(3, finished) == pytest.approx(3)
