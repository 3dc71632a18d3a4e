"""Sessions that wait cost a row: no memory, no task, and one is woken as fast as if it were alone."""

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from asyncagents import ScriptedModel, async_tool, call, open_runtime, say
from benchmarks.multiply import multiply
from benchmarks.report import Figure

FEW, MANY = 100_000, 1_000_000


@async_tool
async def deploy() -> str:
    """Deploy something; it takes a day."""
    return "started"


MODEL = ScriptedModel({"ship": [[call("deploy")], [say("done")]]}, remember=False)
TOOLS = [deploy]


async def fill(directory: Path, count: int) -> Path:
    """A data directory with so many parked sessions, unless it is there."""
    if not directory.exists():  # noqa: ASYNC240  nothing else runs
        await _park_one(directory)
        if count > 1:
            multiply(directory / "asyncagents.db", count)
    return directory


async def _park_one(directory: Path) -> None:
    async with open_runtime(directory, model=MODEL, tools=TOOLS) as runtime:
        session = await runtime.create_session(directory="/project")
        await runtime.prompt(session.id, "ship")


def memory() -> float:
    """Resident megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Seen(Struct, frozen=True):
    """What a process saw that opened a directory of parked sessions."""

    ready: float
    memory: float
    live: int
    wake: float


async def look(directory: Path) -> Seen:
    """Open it, let the sweep see everything, and wake one session."""
    begun = time.perf_counter()
    async with open_runtime(directory, model=MODEL, tools=TOOLS) as runtime:
        newest = (await runtime.sessions("/project", limit=1))[0]
        ready = time.perf_counter() - begun
        await asyncio.sleep(1)  # the sweep at the start, and some polls
        used, live = memory(), runtime.live
        woken = time.perf_counter()
        (waiting,) = await runtime.open_calls(newest.id)
        await runtime.complete(waiting.id, "v2")
        await runtime.wait(newest.id)
        return Seen(ready, used, live, time.perf_counter() - woken)


async def _in_a_process(directory: Path) -> Seen:
    """Memory is only comparable between processes that did nothing else."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.parked", str(directory), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return msgspec.json.decode(out, type=Seen)


async def measure(directory: Path, *, full: bool = False) -> list[Figure]:
    count = MANY if full else FEW
    one = await _in_a_process(await fill(directory / "one", 1))
    many = await _in_a_process(await fill(directory / "many", count))
    return [
        Figure(f"memory of {count:,} parked sessions", many.memory - one.memory, "MB", "≤ 5"),
        Figure("memory of the process with one", one.memory, "MB"),
        Figure("live runs meanwhile", many.live, "", "0"),
        Figure("start-up with them", many.ready * 1e3, "ms"),
        Figure("… with one", one.ready * 1e3, "ms"),
        Figure("wake of one, from result to rest", many.wake * 1e3, "ms"),
        Figure("… of the only one", one.wake * 1e3, "ms"),
    ]


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(look(Path(sys.argv[1])))))
