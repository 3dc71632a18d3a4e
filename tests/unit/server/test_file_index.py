"""Names of files are looked for once for all who ask meanwhile."""

import asyncio
from threading import Event

import pytest

from asyncagents.errors import InvalidInput, ToolError, Unavailable
from asyncagents.server.blocking import BlockingWork, FileIndex, FileNames

FOUND = FileNames(files=("a",), folders=())


async def test_a_walk_goes_on_for_other_requests_when_its_first_is_cancelled() -> None:
    loop, begun, go = asyncio.get_running_loop(), asyncio.Event(), Event()
    walks = []

    def walk(where: str, left: Event) -> FileNames:
        walks.append(where)
        loop.call_soon_threadsafe(begun.set)
        assert go.wait(30)
        return FOUND

    blocking, index = BlockingWork(), FileIndex()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(index.names(blocking, "/x", walk))
        await begun.wait()
        first.cancel()
        others = [group.create_task(index.names(blocking, "/x", walk)) for _ in range(5)]
        loop.call_soon(go.set)
    blocking.close()

    assert [each.result() for each in others] == [FOUND] * 5
    assert walks == ["/x"]


async def test_a_failed_walk_is_an_error_and_the_next_request_walks_again() -> None:
    tries = []

    def walk(where: str, left: Event) -> FileNames:
        tries.append(left.is_set())
        if len(tries) == 1:
            raise ToolError("It cannot be read.")
        return FOUND

    blocking, index = BlockingWork(), FileIndex()
    with pytest.raises(InvalidInput, match="cannot be read"):
        await index.names(blocking, "/x", walk)
    assert await index.names(blocking, "/x", walk) is FOUND
    blocking.close()
    assert tries == [False, False]
    assert blocking.closing.is_set()


async def test_blocking_work_on_a_hanging_disk_is_unavailable_after_a_timeout() -> None:
    blocking, go = BlockingWork(), Event()
    blocking.seconds = 0.01
    try:
        with pytest.raises(Unavailable, match="did not answer"):
            await blocking.run(lambda: go.wait(30))
    finally:
        go.set()
        blocking.close()
