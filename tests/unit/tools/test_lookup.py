"""Names are looked up beside everything else: a slow name server holds up no thread that others need."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from asyncagents.tools.web.dns_lookup import ThreadedLookup


@pytest.fixture
def slow_names(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The name server of slow.test answers when the event is set."""
    go = threading.Event()

    def getaddrinfo(host: str, port: int, **more: object) -> list[tuple[object, ...]]:
        if host == "slow.test":
            go.wait()
        return [(0, 0, 0, "", ("192.0.2.1", port))]

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    yield go
    go.set()


async def test_a_host_name_is_looked_up(slow_names: threading.Event) -> None:
    assert await ThreadedLookup()("quick.test", 80) == ["192.0.2.1"]


async def test_slow_lookups_do_not_use_up_the_threads_of_asyncio(slow_names: threading.Event) -> None:
    look_up = ThreadedLookup(seconds=60)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        slow = [group.create_task(look_up("slow.test", 80)) for _ in range(100)]
        assert await asyncio.to_thread(lambda: "others go on") == "others go on"
        assert not any(each.done() for each in slow)
        slow_names.set()
    assert [each.result() for each in slow] == [["192.0.2.1"]] * 100


async def test_a_name_that_takes_too_long_is_given_up_and_the_next_waits_for_its_thread(
    slow_names: threading.Event,
) -> None:
    look_up = ThreadedLookup(seconds=0.05, most=1)
    with pytest.raises(TimeoutError):
        await look_up("slow.test", 80)
    with pytest.raises(TimeoutError):  # the one thread still waits
        await look_up("quick.test", 80)
    slow_names.set()
    async with asyncio.timeout(30):
        while True:
            try:
                assert await look_up("quick.test", 80) == ["192.0.2.1"]
                break
            except TimeoutError:
                continue


@pytest.mark.parametrize("host", ["a" * 70 + ".test", "no such name.test", "a..test"])
async def test_a_host_that_cannot_be_looked_up_is_an_os_error(host: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011  each system has its own words
        await ThreadedLookup()(host, 80)
