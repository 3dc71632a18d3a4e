"""The deadline of a silent stream, in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from asyncagents.llm.http import request
from asyncagents.llm.http.idle_timeout import IdleTimeout
from asyncagents.testing.simloop import simulate

PING_SECONDS = int(request.PING_SECONDS)


def ended_at(
    seconds: float, main: Callable[[IdleTimeout], Awaitable[None]], *, first: float | None = None
) -> float | None:
    """When the idle timeout stopped the stream; None if it never did."""

    async def run() -> float | None:
        loop = asyncio.get_running_loop()
        stopped: list[float] = []
        begun = loop.time()
        watch = IdleTimeout(
            seconds if first is None else first, seconds, lambda: stopped.append(loop.time() - begun)
        )
        await main(watch)
        watch.stop()
        assert watch.expired == bool(stopped)
        return stopped[0] if stopped else None

    return simulate(run, seed=1)


@pytest.mark.spec("C-05")
def test_silence_for_the_idle_timeout_ends_the_stream() -> None:
    async def silent(watch: IdleTimeout) -> None:
        watch.waiting = True
        await asyncio.sleep(100)

    assert ended_at(10, silent) == pytest.approx(10)


def test_arriving_bytes_restart_the_idle_timeout() -> None:
    async def speaking(watch: IdleTimeout) -> None:
        for _ in range(20):
            watch.waiting = True
            await asyncio.sleep(9)
            watch.touch()
        await asyncio.sleep(100)

    assert ended_at(10, speaking) == pytest.approx(190)


def test_time_that_the_reader_takes_does_not_count_as_silence() -> None:
    async def slow_reader(watch: IdleTimeout) -> None:
        await asyncio.sleep(1000)
        watch.touch()
        watch.waiting = True
        await asyncio.sleep(9)

    assert ended_at(10, slow_reader) is None


def test_an_idle_timeout_of_zero_never_ends_the_stream() -> None:
    async def silent(watch: IdleTimeout) -> None:
        watch.waiting = True
        await asyncio.sleep(1_000_000)

    assert ended_at(0, silent) is None


@pytest.mark.parametrize("seconds", [0.0, 300.0])
def test_a_limit_that_is_set_later_ends_a_silent_stream(seconds: float) -> None:
    async def finished(watch: IdleTimeout) -> None:
        watch.waiting = True
        await asyncio.sleep(5)
        watch.set_limit(10)
        await asyncio.sleep(1000)

    assert ended_at(seconds, finished) == pytest.approx(15)


def test_a_stream_past_its_limit_is_late_even_without_silence() -> None:
    async def run() -> list[bool]:
        watch = IdleTimeout(300, 300, lambda: None)
        seen = [watch.is_late]
        watch.set_limit(10)
        for _ in range(4):
            await asyncio.sleep(3)
            watch.touch()
            seen.append(watch.is_late)
        watch.stop()
        return seen

    assert simulate(run, seed=1) == [False, False, False, False, True]


def test_a_limit_never_extends_the_idle_timeout() -> None:
    async def finished(watch: IdleTimeout) -> None:
        watch.waiting = True
        watch.set_limit(10)
        await asyncio.sleep(1000)

    assert ended_at(3, finished) == pytest.approx(3)


@pytest.mark.spec("C-05")
def test_a_model_may_think_in_silence_for_longer_before_its_first_word_than_after_it() -> None:
    async def thinking(watch: IdleTimeout) -> None:
        watch.waiting = True
        await asyncio.sleep(500)
        watch.note_content()
        await asyncio.sleep(1000)

    assert ended_at(300, thinking, first=600) == pytest.approx(800)


@pytest.mark.spec("C-05")
def test_a_model_that_never_begins_is_given_up() -> None:
    async def silent(watch: IdleTimeout) -> None:
        watch.waiting = True
        await asyncio.sleep(10_000)

    assert ended_at(300, silent, first=600) == pytest.approx(600)


@pytest.mark.parametrize("says", [False, True])
def test_pings_without_content_keep_a_stream_open_for_at_most_an_hour(says: bool) -> None:
    async def pinging(watch: IdleTimeout) -> None:
        watch.waiting = True
        await asyncio.sleep(100)
        watch.note_content() if says else watch.touch()
        for _ in range(2 * PING_SECONDS // 100):
            await asyncio.sleep(100)
            watch.touch()

    ended = ended_at(300, pinging, first=600)
    assert ended == pytest.approx(PING_SECONDS + (100 if says else 0))


def test_an_idle_timeout_longer_than_that_of_pings_is_kept() -> None:
    async def silent(watch: IdleTimeout) -> None:
        watch.waiting = True
        await asyncio.sleep(10 * PING_SECONDS)

    assert ended_at(300, silent, first=2 * PING_SECONDS) == pytest.approx(2 * PING_SECONDS)
