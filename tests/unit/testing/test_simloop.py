"""The simulated loop: seeded order, virtual time, no way out, and the same trace everywhere."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from asyncagents.testing.simloop import Deadlock, Livelock, SimLoop, SimulationError, simulate


def trace(seed: int, main: Callable[[], Awaitable[object]]) -> tuple[object, str]:
    async def run() -> object:
        return await main()

    loop = SimLoop(seed)
    return loop.run(run), loop.trace_digest()


class Tangle:
    """Task groups, timeouts, cancellations, sets of tasks, shields and generators, in one scenario."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.queue: asyncio.Queue[str] = asyncio.Queue(2)

    async def worker(self, name: str) -> str:
        try:
            for beat in range(3):
                await self.queue.put(f"{name}.{beat}")
                await asyncio.sleep(0.01 * (beat % 2))
        finally:
            self.log.append(f"end {name}")
        return name

    async def ticks(self) -> AsyncIterator[int]:
        try:
            for number in range(100):
                await asyncio.sleep(0)
                yield number
        finally:
            self.log.append("ticks closed")

    async def drain(self) -> None:
        while True:
            self.log.append(await self.queue.get())

    async def fail(self) -> None:
        await asyncio.sleep(0.005)
        raise ValueError("one of them fails")

    async def cancel_some(self, group: asyncio.TaskGroup) -> None:
        tasks = {group.create_task(self.worker(f"w{number}")) for number in range(6)}
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        self.log.extend(task.result() for task in done)
        self.log.extend(task.get_name() for task in pending)
        next(iter(pending)).cancel()

    async def run(self, group: asyncio.TaskGroup) -> None:
        group.create_task(self.drain(), name="drain")
        await self.cancel_some(group)
        async for number in self.ticks():
            if number == 5:
                break
        self.log.append(await asyncio.shield(asyncio.to_thread(lambda: "from the executor")))
        group.create_task(self.fail())
        await asyncio.gather(*(asyncio.sleep(hour * 3600) for hour in range(3)))


async def tangle() -> list[str]:
    scenario = Tangle()
    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            await scenario.run(group)
    return scenario.log


def test_the_same_seed_gives_the_same_results_and_trace() -> None:
    for seed in range(20):
        assert trace(seed, tangle) == trace(seed, tangle)


def test_different_seeds_give_different_interleavings() -> None:
    runs = [trace(seed, tangle) for seed in range(50)]
    assert len({digest for _, digest in runs}) == 50
    assert len({str(log) for log, _ in runs}) > 40


def test_traces_are_equal_in_processes_with_different_hash_seeds() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "ballast = [object() for _ in range(int(sys.argv[2]))]\n"
        "from test_simloop import tangle, trace\n"
        "print([trace(seed, tangle) for seed in range(20)])\n"
    )
    here = str(Path(__file__).parent)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script, here, ballast],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed, ballast in (("0", "10"), ("1", "100003"), ("4242", "7777"))
    }
    assert outputs == {f"{[trace(seed, tangle) for seed in range(20)]}\n"}


def test_hashes_of_tasks_and_futures_count_up() -> None:
    async def main() -> list[int]:
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            made = [loop.create_future(), group.create_task(asyncio.sleep(0)), loop.create_future()]
        return [hash(one) for one in made]

    first, second, third = simulate(main, seed=0)
    assert second == first + 1
    assert third == first + 2


def test_hours_of_virtual_time_cost_nothing() -> None:
    async def main() -> float:
        for _ in range(1_000):
            await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert simulate(main, seed=0) == 3_600_000


def test_a_timeout_fires_at_its_virtual_moment() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(90):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    assert simulate(main, seed=0) == 90


def test_a_cancelled_timer_never_moves_the_clock() -> None:
    async def main() -> float:
        for _ in range(500):
            async with asyncio.timeout(1_000):
                await asyncio.sleep(0)
        await asyncio.sleep(1)
        return asyncio.get_running_loop().time()

    assert simulate(main, seed=0) == 1


def test_a_timer_already_due_runs_beside_busy_tasks() -> None:
    async def main() -> None:
        fired = asyncio.Event()
        asyncio.get_running_loop().call_later(0, fired.set)
        while not fired.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0)

    simulate(main, seed=3, max_steps=1_000)


def test_a_deadlock_names_the_tasks_and_where_they_wait() -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits_for_ever(), name="the sleeper")

    with pytest.raises(Deadlock, match=r"(?s)seed 5.*the sleeper in Event\.wait") as caught:
        simulate(main, seed=5)
    assert "simulation seed 5" in caught.value.__notes__[0]


def test_a_livelock_is_cut_off() -> None:
    async def main() -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match="still busy after 1000 steps"):
        simulate(main, seed=0, max_steps=1_000)


def test_remaining_tasks_are_cancelled_and_generators_closed() -> None:
    ended: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)
            ended.append("generator")

    async def background() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(1)
            ended.append("task")

    open_generators = []

    async def main() -> None:
        open_generators.append(numbers())
        await anext(open_generators[0])
        left = asyncio.get_running_loop().create_task(background())
        await asyncio.sleep(1)
        assert not left.done()

    loop = SimLoop(0)
    loop.run(main)
    assert ended == ["task", "generator"]
    assert loop.is_closed()


def test_async_generators_work_under_cancellation() -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(10):
            await asyncio.sleep(1)
            yield number

    async def take(seen: list[int]) -> None:
        async for number in numbers():
            seen.append(number)  # noqa: PERF401

    async def main() -> list[int]:
        seen: list[int] = []
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(take(seen), 3.5)
        return seen

    assert simulate(main, seed=0) == [0, 1, 2]


def test_an_exception_carries_the_seed() -> None:
    async def main() -> None:
        await asyncio.sleep(2)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken") as caught:
        simulate(main, seed=77)
    assert caught.value.__notes__ == ["simulation seed 77, virtual time 2.000 s"]


def test_executor_work_runs_in_this_thread_and_delivers_later() -> None:
    async def main() -> tuple[int, bool]:
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(None, threading.get_ident)
        started_done = work.done()
        return await work, started_done

    assert simulate(main, seed=0) == (threading.get_ident(), False)


def test_executor_work_sees_no_running_loop_and_hands_back_its_exception() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="no running event loop"):
            await asyncio.to_thread(asyncio.get_running_loop)
        assert isinstance(asyncio.get_running_loop(), SimLoop)

    simulate(main, seed=0)


def test_a_cancelled_wait_for_the_executor_may_or_may_not_stop_the_work() -> None:
    def outcome(seed: int) -> bool:
        done: list[str] = []

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(asyncio.to_thread(done.append, "effect"))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                waiting.cancel()

        simulate(main, seed=seed)
        return bool(done)

    assert {outcome(seed) for seed in range(50)} == {True, False}


@pytest.mark.parametrize(
    "reach_out",
    [
        lambda: asyncio.open_connection("localhost", 1),
        lambda: asyncio.start_server(lambda reader, writer: None, "localhost", 0),
        lambda: asyncio.open_unix_connection("/tmp/none"),
        lambda: asyncio.create_subprocess_exec("true"),
        lambda: asyncio.create_subprocess_shell("true"),
        lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1),
        lambda: asyncio.get_running_loop().getnameinfo(("localhost", 1)),
    ],
)
def test_connections_and_subprocesses_are_refused(reach_out: Callable[[], Awaitable[object]]) -> None:
    async def main() -> None:
        await reach_out()

    with pytest.raises(SimulationError, match="reaches outside the simulation"):
        simulate(main, seed=0)


def test_readers_and_signal_handlers_are_refused() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(SimulationError, match="add_signal_handler"):
            loop.add_signal_handler(2, print)
        with pytest.raises(SimulationError, match="add_reader"):
            loop.add_reader(0, print)

    simulate(main, seed=0)


def test_a_call_from_another_thread_is_refused() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        caught: list[Exception] = []

        def intrude() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except SimulationError as error:
                caught.append(error)

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        assert len(caught) == 1

    simulate(main, seed=0)


def test_notes_are_part_of_the_trace() -> None:
    def digest(text: str) -> str:
        loop = SimLoop(0, keep_trace=True)

        async def main() -> None:
            loop.note(text)

        loop.run(main)
        assert f"note {text!r}\n" in loop.trace_lines()
        return loop.trace_digest()

    assert digest("paid") == digest("paid") != digest("not paid")


def test_reading_a_trace_that_was_not_kept_is_an_error() -> None:
    loop = SimLoop(0)
    loop.run(lambda: asyncio.sleep(0))
    with pytest.raises(SimulationError, match="keep_trace=True"):
        loop.trace_lines()


def test_a_lost_wake_is_found_within_fifty_seeds() -> None:
    def lost(seed: int) -> bool:
        async def main() -> None:
            inbox: list[str] = []
            wake = asyncio.Event()

            async def sleeper() -> None:
                while not inbox:
                    await asyncio.sleep(0)  # the bug: a wake that comes here is cleared below
                    wake.clear()
                    await wake.wait()

            async def sender() -> None:
                await asyncio.sleep(0)
                inbox.append("work")
                wake.set()

            async with asyncio.TaskGroup() as group:
                group.create_task(sleeper())
                group.create_task(sender())

        try:
            simulate(main, seed=seed)
        except Deadlock:
            return True
        return False

    found = [seed for seed in range(50) if lost(seed)]
    assert 0 < len(found) < 50
    assert all(lost(seed) for seed in found)
