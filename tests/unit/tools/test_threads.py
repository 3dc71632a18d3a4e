"""Threads of a project: what hangs there holds up neither its other work nor the end of the process."""

import asyncio
import subprocess
import sys
from contextvars import ContextVar
from threading import Event, current_thread

import pytest

from asyncagents.tools.file import thread_pool
from asyncagents.tools.file.thread_pool import Threads
from asyncagents.tools.search import low_priority
from tests.support.wait import PATIENCE, wait_until

pytestmark = pytest.mark.slow

EXITS = """
from threading import Event
from asyncagents.tools.file.thread_pool import Threads
Threads().submit(Event().wait)
"""
YIELDS = """
import os
from asyncagents.tools.search.low_priority import lower_priority
lower_priority()
print(os.nice(0), flush=True)
while os.sched_getscheduler(0) != os.SCHED_IDLE:
    sum(range(10_000))
print("idle")
"""


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "STUCK_SECONDS", 0.05)


class CountedThreads(Threads):
    """Counts how often another thread was wanted."""

    tried = 0

    def _add_thread(self) -> None:
        self.tried += 1
        super()._add_thread()


async def test_one_thread_does_all_the_work_while_none_hangs() -> None:
    own = Threads()
    names = await asyncio.gather(*(own.run(lambda: current_thread().ident) for _ in range(50)))
    assert len(set(names)) == 1
    assert current_thread().ident not in names


async def test_work_that_hangs_holds_up_no_other_until_all_threads_hang() -> None:
    own, free = CountedThreads(most=3), Event()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        hanging = [group.create_task(own.run(free.wait)) for _ in range(2)]
        assert await own.run(lambda: "done") == "done"
        hanging.append(group.create_task(own.run(free.wait)))
        await wait_until(lambda: not own._queue and not own._idle)  # the third thread takes it up
        last, tried = group.create_task(own.run(lambda: "last")), own.tried
        await wait_until(lambda: own.tried >= tried + 8)  # each that waits tries to get a thread, twice
        assert not last.done()
        assert not await own.wait_idle(0.01)
        free.set()
    assert last.result() == "last"
    assert await own.wait_idle(PATIENCE)


async def test_queued_work_is_dropped_when_its_waiting_task_is_cancelled() -> None:
    own, free, begun = Threads(most=1), Event(), Event()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(own.run(free.wait))
        dropped = group.create_task(own.run(begun.set))
        await asyncio.sleep(0)
        dropped.cancel()
        await asyncio.wait({dropped})
        free.set()
        await own.run(lambda: None)
    assert not begun.is_set()


async def test_work_in_a_thread_has_the_context_and_passes_on_its_exception() -> None:
    said: ContextVar[str] = ContextVar("said")
    said.set("here")
    assert await Threads().run(said.get) == "here"
    with pytest.raises(ZeroDivisionError):
        await Threads().run(lambda: 1 // 0)


def test_a_process_ends_though_a_thread_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", EXITS], timeout=PATIENCE, check=False)
    assert done.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has this policy")
def test_a_search_that_computes_for_long_leaves_the_processors_to_others() -> None:
    done = subprocess.run(
        [sys.executable, "-c", YIELDS], timeout=4 * PATIENCE, check=True, capture_output=True, text=True
    )
    nice, idle = done.stdout.split()
    assert int(nice) >= low_priority.NICE
    assert idle == "idle"
