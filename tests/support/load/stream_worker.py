"""A process whose tasks are watched: `python -m tests.support.load.stream_worker DATA`; stdin orders it.

`launch N`, `end` and `clear` change rows of tasks as fast as they are written; `work SEED` lets agents launch
agents for real, until `rest`. Each is answered with a line: the megabytes that the process takes.
"""

import asyncio
import random
import sys
from pathlib import Path
from typing import TextIO

from msgspec import Struct
from msgspec.structs import replace

from asyncagents import Runtime, ScriptedModel, open_runtime
from asyncagents.config.clock import SystemClock, SystemRng
from asyncagents.config.config import DelegationConfig
from asyncagents.domain.call.call import Completed
from asyncagents.domain.fact import ClearTasks
from asyncagents.domain.id import Ids, SessionId
from asyncagents.domain.task.task import Account, Task
from asyncagents.engine.tool import Tool, ToolContext
from asyncagents.llm.scripted import call, fail, pause, say
from asyncagents.server.http.timeouts import Timeouts
from asyncagents.server.serve import ServerOptions, open_server
from asyncagents.store.tx import Tx
from asyncagents.store.verb.cancel import clear_tasks
from asyncagents.store.verb.task import put_task
from asyncagents.store.verb_runner import VerbRunner
from asyncagents.testing.inside import inside
from benchmarks.parked import memory
from tests.support.delegation import allow_all, launch_task

TOGETHER = 100
"""Rows of one transaction, of one parent."""
PROMPT = "Look at it, and say what it is. " * 60
"""Whoever kept the events for those who do not read would be seen by it."""
PARENTS = 3
SCRIPT = {
    "go": [
        [launch_task("Well", "well"), launch_task("Badly", "badly"), launch_task("Slowly", "slowly")],
        [say("Off.")],
    ],
    "clear": [[call("asyncagents_clear")], [say("Cleared.")]],
    "well": [[call("look")], [call("look"), call("look")], [say("Done.")]],
    "badly": [[call("look")], [fail("no")]],
    "slowly": [[pause(0.02), call("look")], [pause(0.02), call("look")], [pause(0.02), say("Done.")]],
}


ENDLESS = ServerOptions(port=0, timeouts=Timeouts(stall_seconds=86_400))
"""Whoever stalls is not cut off: what he costs is to be seen."""


class Nothing(Struct, frozen=True):
    """Looks at nothing."""


async def _look(args: Nothing, context: ToolContext) -> Completed:
    return Completed("seen")


LOOK: Tool[Nothing] = Tool("look", Nothing, _look, effect="none")


class Rows(VerbRunner):
    """Tasks without sessions, written as the store writes them."""

    tasks: list[list[Task]]

    async def launch(self, many: int) -> None:
        clock = SystemClock()
        ids = Ids(clock, SystemRng())
        self.tasks = [_tasks(ids, clock.now()) for _ in range(0, many, TOGETHER)]
        for each in self.tasks:
            await self._put(each, new=True)

    async def end(self) -> None:
        account = Account(finish="stop", tool_calls=3, by_name={"look": 3}, last_tools=("look",))
        self.tasks = [
            [
                replace(task, status="completed", ended=task.created, result="Done. " * 20, account=account)
                for task in each
            ]
            for each in self.tasks
        ]
        for each in self.tasks:
            await self._put(each)

    async def clear(self) -> None:
        for each in self.tasks:
            await self._clear(each[0].parent_id)

    async def _clear(self, parent_id: SessionId) -> None:
        await self._write(lambda tx: clear_tasks(tx, ClearTasks(parent_id)))

    async def _put(self, tasks: list[Task], *, new: bool = False) -> None:
        async def put(tx: Tx) -> None:
            for each in tasks:
                await put_task(tx, each, new=new)

        await self._write(put)


def _tasks(ids: Ids, now: int) -> list[Task]:
    parent_id, message_id = ids.session(), ids.message()
    return [
        Task(
            id=ids.session(),
            parent_id=parent_id,
            message_id=message_id,
            parent_agent="build",
            agent="general",
            description=f"Look at thing {number}",
            prompt=PROMPT,
            batch=f"bat_{parent_id}",
            created=now,
            began=now,
        )
        for number in range(TOGETHER)
    ]


class Crew:
    """Parents that launch, clear, cancel, follow up and vanish, until they are to rest."""

    def __init__(self, runtime: Runtime, seed: int) -> None:
        self._runtime = runtime
        self._rng = random.Random(seed)
        self._over = False

    def rest(self) -> None:
        self._over = True

    async def work(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(PARENTS):
                group.create_task(self._parent())

    async def _parent(self) -> None:
        while not self._over:
            session = await self._runtime.create_session(directory="/project")
            for _ in range(self._rng.randrange(1, 4)):
                await self._runtime.prompt(session.id, "go")
                await self._meddle(session.id)
                await self._runtime.wait_tree(session.id)
            if self._rng.random() < 0.7:
                await self._runtime.prompt(session.id, "clear")
                await self._runtime.wait_tree(session.id)
            else:
                await self._runtime.delete_session(session.id)

    async def _meddle(self, session_id: SessionId) -> None:
        task = self._rng.choice(await self._runtime.tasks.list(session_id))
        match self._rng.randrange(3):
            case 0:
                await self._runtime.tasks.cancel(task.session_id)
            case 1:
                await self._runtime.tasks.resume(task.session_id, "well")
            case _:
                pass


async def _obey(runtime: Runtime, orders: asyncio.StreamReader, out: TextIO) -> None:
    rows, crew = Rows(inside(runtime).store._database), Crew(runtime, 0)
    async with asyncio.TaskGroup() as group:
        working: asyncio.Task[None] | None = None
        while line := (await orders.readline()).decode().split():
            match line:
                case ["launch", many]:
                    await rows.launch(int(many))
                case ["end"]:
                    await rows.end()
                case ["clear"]:
                    await rows.clear()
                case ["work", seed]:
                    crew = Crew(runtime, int(seed))
                    working = group.create_task(crew.work())
                case ["rest"]:
                    crew.rest()
                    await (working or asyncio.sleep(0))
                case _:
                    raise AssertionError(line)
            out.write(f"{memory():.1f}\n")
            out.flush()
        if working is not None:
            working.cancel()


async def main(data: Path) -> None:
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    model = ScriptedModel(SCRIPT, remember=False)
    limits = DelegationConfig(tools="both")
    async with (
        open_runtime(data, model=model, tools=[LOOK], delegation=limits, policy=allow_all) as runtime,
        open_server(runtime, data, ENDLESS) as listing,
    ):
        sys.stdout.write(f"{listing.url}\n")
        sys.stdout.flush()
        await _obey(runtime, orders, sys.stdout)


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(Path(sys.argv[1])))
