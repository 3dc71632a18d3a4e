"""One step that launches many tasks: how long it takes, what a child costs, and what it weighs.

Each measurement is a process of its own: `python -m benchmarks.delegate WHAT DIRECTORY CHILDREN SECONDS`.
"""

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from asyncagents import Pending, Runtime, Tool, ToolContext
from asyncagents.app.assemble import Setup, start_runtime
from asyncagents.app.backend import Backend
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.config.config import DelegationConfig
from asyncagents.domain.agent.permission import Action
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.id import Ids, SessionId
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    StepFinish,
    StreamFinish,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallReady,
    ToolCallStart,
    UserTurn,
)
from asyncagents.store.sqlite.database import open_sqlite
from asyncagents.store.sqlite.owners import FlockOwners
from benchmarks.report import Figure

CHILDREN = 500
DELAY = 2.0
FEW, MANY = 100, 1_100
LIMITS = DelegationConfig(concurrent=10_000, spawns=10_000)
PROMPT = "fan out"


class Deploy(Struct, frozen=True):
    """Deploy something; it takes a day."""


async def _deploy(args: Deploy, context: ToolContext) -> Pending:
    return Pending(note="started")


class Crew:
    """The parent launches all in its first step; a child answers after a while, or waits for the outside."""

    def __init__(self, children: int, seconds: float, *, parks: bool = False) -> None:
        self._children = children
        self._seconds = seconds
        self._parks = parks
        self.asked = 0
        self.steps = 0
        self.over = asyncio.Event()
        """The parent was told of the last end."""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        first, last = request.messages[0], request.messages[-1]
        yield StreamStart()
        calls: list[tuple[str, dict[str, str]]] = []
        if isinstance(first, UserTurn) and first.text == PROMPT:
            self.steps += 1
            if first is last:
                given = {"description": "A job", "prompt": "job", "agent": "general"}
                calls = [("asyncagents_task", given)] * self._children
            elif isinstance(last, UserTurn) and f"{self._children}/{self._children}" in last.text:
                self.over.set()
        else:
            self.asked += 1
            calls = [("deploy", {})] if self._parks and first is last else []
            await asyncio.sleep(self._seconds)
        yield TextStart("t")
        yield TextDelta("t", "ok")
        yield TextEnd("t")
        for number, (tool, given) in enumerate(calls):
            yield ToolCallStart(f"c{number}", tool)
            yield ToolCallReady(f"c{number}", tool, given)
        yield StepFinish("tool-calls" if calls else "stop", Tokens.zero())
        yield StreamFinish()


class Seen(Struct, frozen=True, kw_only=True):
    wall: float = 0
    cpu: float = 0
    memory: float = 0
    steps: int = 0


@asynccontextmanager
async def _runtime(directory: Path, crew: Crew) -> AsyncIterator[Runtime]:
    """As `open_runtime` makes it; only the model takes any number of requests at once."""
    clock, rng = SystemClock(), SystemRng()
    ids, owners = Ids(clock, rng), FlockOwners(directory / "owners", f"{rng.below(2**64):016x}")
    setup = Setup(
        model=crew,
        open_workplaces=fixed_tools([Tool("deploy", Deploy, _deploy)], _allow, LIMITS),
        concurrency=lambda model: 10_000,
    )
    try:
        async with (
            open_sqlite(directory / "asyncagents.db", clock=clock, rng=rng, ids=ids) as database,
            start_runtime(Backend(database, owners, clock, rng, ids), setup) as runtime,
        ):
            yield runtime
    finally:
        owners.close()


def _allow(ask: object, context: object) -> Action:
    return "allow"


async def _session(runtime: Runtime) -> SessionId:
    return (await runtime.create_session(directory="/project")).id


def _memory() -> float:
    """Resident megabytes of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def tasks(directory: Path, children: int, seconds: float) -> Seen:
    """From the prompt until the parent has answered to the last end."""
    crew = Crew(children, seconds)
    async with _runtime(directory, crew) as runtime:
        root = await _session(runtime)
        wall, cpu = time.perf_counter(), time.process_time()
        await runtime.prompt(root, PROMPT)
        await crew.over.wait()
        await runtime.wait(root)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        done = await runtime.tasks.list(root)
    assert [task.status for task in done] == ["completed"] * children
    return Seen(wall=wall, cpu=cpu, steps=crew.steps)


async def plain(directory: Path, children: int, seconds: float) -> Seen:
    """The same without delegation: so many sessions, prompted at once."""
    async with _runtime(directory, Crew(children, seconds)) as runtime:
        sessions = [await _session(runtime) for _ in range(children)]
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(runtime.prompt(session, "job") for session in sessions))
        return Seen(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu)


async def running(directory: Path, children: int, seconds: float) -> Seen:
    """Memory while all of them wait for their model."""
    crew = Crew(children, seconds)
    async with _runtime(directory, crew) as runtime:
        root = await _session(runtime)
        await runtime.prompt(root, PROMPT)
        while crew.asked < children:  # noqa: ASYNC110  no event tells that all are
            await asyncio.sleep(0.05)
        seen = Seen(memory=_memory())
        await runtime.abort(root)
    return seen


async def park(directory: Path, children: int, seconds: float) -> Seen:
    """Leave all of them waiting for the outside."""
    crew = Crew(children, 0, parks=True)
    async with _runtime(directory, crew) as runtime:
        await runtime.prompt(await _session(runtime), PROMPT)
        while crew.asked < children or runtime.live:  # noqa: ASYNC110  no event tells that all are
            await asyncio.sleep(0.05)
        return Seen(memory=_memory())


async def parked(directory: Path, children: int, seconds: float) -> Seen:
    """Memory of a process that finds them parked."""
    async with _runtime(directory, Crew(0, 0)) as runtime:
        await asyncio.sleep(1)  # the sweep at the start, and some polls
        assert runtime.live == 0
        return Seen(memory=_memory())


WHAT = {each.__name__: each for each in (tasks, plain, running, park, parked)}


def _see(what: str, children: int, seconds: float = 0, *, directory: Path | None = None) -> Seen:
    with tempfile.TemporaryDirectory(prefix="bench-") as fresh:
        words = [what, str(directory or fresh), str(children), str(seconds)]
        command = [sys.executable, "-m", "benchmarks.delegate", *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Seen)


def _parked(children: int) -> Seen:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        _see("park", children, directory=Path(directory))
        return _see("parked", children, directory=Path(directory))


def measure() -> list[Figure]:
    slow, slow_plain = _see("tasks", CHILDREN, DELAY), _see("plain", CHILDREN, DELAY)
    quick, quick_plain = _see("tasks", CHILDREN), _see("plain", CHILDREN)
    run = (_see("running", MANY, 60).memory - _see("running", FEW, 60).memory) / (MANY - FEW)
    wait = (_parked(MANY).memory - _parked(FEW).memory) / (MANY - FEW)
    return [
        Figure("500 tasks of one step, a 2 s answer in process: wall", slow.wall, "s", "≤ 3"),
        Figure("… of 500 sessions without delegation", slow_plain.wall, "s"),
        Figure(
            "500 tasks of one step, an instant answer: CPU, a child",
            quick.cpu / CHILDREN * 1e3,
            "ms",
            "≤ 1.5",
        ),
        Figure("… of a session without delegation", quick_plain.cpu / CHILDREN * 1e3, "ms"),
        Figure("… children a second", CHILDREN / quick.wall, "1/s"),
        Figure("… sessions a second without delegation", CHILDREN / quick_plain.wall, "1/s"),
        Figure("… steps that the parent took", quick.steps, ""),
        Figure("memory of a running child", run * 1e3, "kB"),
        Figure("memory of a parked child", wait * 1e3, "kB"),
    ]


if __name__ == "__main__":
    _, name, place, many, after = sys.argv
    sys.stdout.buffer.write(
        msgspec.json.encode(asyncio.run(WHAT[name](Path(place), int(many), float(after))))
    )
