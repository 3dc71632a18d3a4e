"""A simulated machine on which a store is recorded: processes play acts one after the other, and some die."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from asyncagents.app.assemble import Setup
from asyncagents.domain.call.call import Call
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.status import Idle, WaitingAsync
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.store.store import Store
from asyncagents.testing.clock import LoopClock, SeededRng
from asyncagents.testing.fault import Fault
from asyncagents.testing.inside import inside
from asyncagents.testing.process import Machine, Odds, Process
from tests.recorded.cast import Cast, Record, Scenes, Terms
from tests.simulation.tape import Taken, Tape, TapedProcess

PROJECT = "/srv/project"
TICK = 0.05
PATIENCE = 600
"""So long an act waits, in seconds of virtual time."""


class RecordedProcess(TapedProcess):
    """A process that dies right after a chosen verb was committed."""

    fatal: Callable[[Taken], bool] | None = None

    def commit(self) -> Fault | None:
        """Look at the verbs that are about to be committed."""
        if self.fatal is not None and any(map(self.fatal, self.tape._tried)):
            return "crash_after"
        return None


def verb_of(taken: Taken) -> str:
    """Name a verb, such as `Store.claim`."""
    return taken.verb.__qualname__.partition(".<")[0]


class Recorder:
    """Holds what outlives the processes: the file, the log of committed verbs, and the names of sessions."""

    def __init__(self, path: Path, scenes: Scenes, *, seed: int) -> None:
        self.path = path
        self.log: list[Taken] = []
        self.sessions: dict[str, SessionId] = {}
        self.record = Record([], [])
        self.kept: dict[str, bytes] = {}
        """The files of the store, copied while a process was at work."""
        self._scenes = scenes
        self._machine = Machine(path, seed, Odds(SeededRng(seed)))
        self._machine.poll_seconds = 60
        self._number = 0

    @property
    def owner(self) -> str:
        """The owner of the last process."""
        return f"owner{self._number}"

    def clock(self, loop: asyncio.AbstractEventLoop) -> int:
        return LoopClock(loop).now()

    def keep(self) -> None:
        """Copy the files as they are: a log that no checkpoint has seen is among them."""
        for path in sorted(self.path.parent.glob(f"{self.path.name}*")):
            if not path.name.endswith("-shm"):
                self.kept[path.name] = path.read_bytes()

    @asynccontextmanager
    async def process(self, **terms: Any) -> AsyncIterator["Act"]:
        """Run one process that serves nothing yet; at the end of the block it stops, unless it has died."""
        self._number += 1
        chosen = Terms(**terms)

        def setup(process: Process) -> Setup:
            clock = LoopClock(asyncio.get_running_loop())
            cast = Cast(self._scenes, chosen, clock, self.record, process=process)
            return cast.setup(serve=False)

        process = RecordedProcess(self._machine, self._number, setup)
        process.tape = Tape(self._number, self.log)
        async with asyncio.TaskGroup() as group:
            group.create_task(process.live())
            await process.started.wait()
            try:
                yield Act(self, process, group)
            finally:
                process.stop()


class Act:
    """One process at work, and the words in which acts are written."""

    def __init__(self, recorder: Recorder, process: RecordedProcess, group: asyncio.TaskGroup) -> None:
        assert process.runtime is not None, "it has started"
        self.recorder = recorder
        self.process = process
        self.group = group
        self.runtime: Runtime = process.runtime
        self.store: Store = inside(self.runtime).store

    def serve(self, name: str | None = None) -> None:
        """Work on all sessions, or on the tree of one."""
        self.runtime.serve_tree(None if name is None else self.id(name))

    def id(self, name: str) -> SessionId:
        return self.recorder.sessions[name]

    def know(self, name: str, session_id: SessionId) -> None:
        assert name not in self.recorder.sessions, name
        self.recorder.sessions[name] = session_id

    async def session(self, name: str, **more: Any) -> SessionId:
        made = await self.runtime.create_session(title=more.pop("title", name), directory=PROJECT, **more)
        self.know(name, made.id)
        return made.id

    async def send(self, name: str, text: str | None = None, **more: Any) -> MessageId:
        """Send a prompt, to a new session unless its name is known."""
        if name not in self.recorder.sessions:
            await self.session(name)
        return await self.runtime.send(self.id(name), text or name, **more)

    async def prompt(self, name: str, text: str | None = None, **more: Any) -> MessageWithParts:
        if name not in self.recorder.sessions:
            await self.session(name)
        async with asyncio.timeout(PATIENCE):
            return await self.runtime.prompt(self.id(name), text or name, **more)

    async def prompted(self, name: str, text: str | None = None, **more: Any) -> None:
        """Send a prompt and wait until its session rests or waits for something outside."""
        await self.send(name, text, **more)
        await self.settled(name)

    async def settled(self, name: str) -> None:
        """Wait until nothing in the tree of a session is at work."""
        await self.until(lambda: self._is_settled(name))

    async def _is_settled(self, name: str) -> bool:
        if await self.runtime.at_work(self.id(name)):
            return False
        status = await self.runtime.status(self.id(name))
        asks = await self.runtime.asks(self.id(name))
        return isinstance(status, Idle | WaitingAsync) or bool(asks)

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until a condition holds; time is virtual."""
        async with asyncio.timeout(PATIENCE):
            while not await holds():  # noqa: ASYNC110  there is no event for all of it
                await asyncio.sleep(TICK)

    async def call(self, name: str, tool: str = "") -> Call:
        """Find the one call of a session that is not settled."""
        calls = await self.store.calls(self.id(name))
        (found,) = [each for each in calls if not each.is_settled and tool in ("", each.tool)]
        return found

    async def until_call(self, name: str, state: str, tool: str = "") -> Call:
        """Wait until a session has a call in this state."""
        found: list[Call] = []

        async def holds() -> bool:
            calls = await self.store.calls(self.id(name))
            found[:] = [
                each for each in calls if type(each.state).__name__ == state and tool in ("", each.tool)
            ]
            return bool(found)

        await self.until(holds)
        return found[-1]

    async def ask_of(self, name: str) -> str:
        """Wait for the ask of a session or of one below it; returns its id."""
        found: list[str] = []

        async def holds() -> bool:
            found[:] = [each.call.ask_id or "" for each in await self.runtime.asks(self.id(name))]
            return bool(found)

        await self.until(holds)
        return found[0]

    async def child(self, name: str, description: str) -> SessionId:
        """Find the session of a task by the words it was launched with."""
        seen = await self.store.tasks_of_tree(self.id(name))
        (found,) = [each.task.id for each in seen if each.task.description == description]
        return found

    async def until_task(self, name: str, description: str, *statuses: str) -> SessionId:
        found: list[SessionId] = []

        async def holds() -> bool:
            seen = await self.store.tasks_of_tree(self.id(name))
            found[:] = [
                each.task.id
                for each in seen
                if each.task.description == description and each.task.status in statuses
            ]
            return bool(found)

        await self.until(holds)
        return found[0]

    async def crash(self) -> None:
        """Kill the process: what was committed stays, and nothing else."""
        self.process.crash()
        await self.process.over.wait()

    async def crash_after(self, verb: str, name: str) -> None:
        """Send a prompt and let the process die as soon as this verb was committed."""
        self.process.fatal = lambda taken: verb_of(taken) == verb
        with suppress(Exception):
            await self.send(name)
        await self.process.over.wait()
