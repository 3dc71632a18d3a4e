"""For power cuts: sessions that wait for several results, and whoever sends them, early, late and twice."""

import asyncio
import random
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import closing
from pathlib import Path

import msgspec

from asyncagents import Pending, ToolContext, async_tool
from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.secret import Secret
from asyncagents.domain.call.call import CANCELLED, Call, Completed, Failed, Result
from asyncagents.domain.call.webhook import webhook_body
from asyncagents.domain.id import CallId
from asyncagents.domain.shape import encode
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.tool import AnyTool
from asyncagents.errors import RequestError
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
from asyncagents.testing.process import Process
from tests.simulation.stage import Stage, Violation, session_of
from tests.support.kills.crowd import Crowd

HOOK = "https://hooks.example/done"
BURST = 12


class ParkModel:
    """Makes a batch of calls of each prompt, and takes note of whatever else it is told."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._seed = seed

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        tries = self._stage.asked(session_of(request.messages), request.messages)
        rng = random.Random(f"{self._seed}:{len(request.messages)}:{request.messages[-1]}")
        yield StreamStart()
        await asyncio.sleep(rng.random() * 0.2)
        last = request.messages[-1]
        if isinstance(last, UserTurn) and ":prompt" in last.text:
            for number in range(rng.randrange(1, 5)):
                key = f"c{tries}_{number}"
                yield ToolCallStart(key, "job")
                yield ToolCallReady(key, "job", {"n": number, "hook": rng.random() < 0.7})
        else:
            yield TextStart("t")
            yield TextDelta("t", "noted")
            yield TextEnd("t")
        yield StepFinish("stop")
        yield StreamFinish()


class ParkCast:
    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._seed = seed

    def setup(self, process: Process) -> Setup:
        return Setup(
            model=ParkModel(self._stage, self._seed), open_workplaces=fixed_tools([self._job(process)])
        )

    def _job(self, process: Process) -> AnyTool:
        @async_tool
        async def job(n: int, hook: bool, context: ToolContext) -> Pending:
            """Begin something that takes long; its result may be there before it returns."""
            if process.dead:
                raise asyncio.CancelledError
            self._stage.jobs.append(context.pending_id)
            await asyncio.sleep(n * 0.02)
            seconds = 6.0 if n == 3 else 600.0  # some expire
            if not hook:
                return Pending(note="begun", seconds=seconds)
            return Pending(
                note="begun",
                seconds=seconds,
                webhook_url=HOOK,
                webhook_secret=Secret(f"of {context.call_id}"),
            )

        return job


class Couriers(Crowd):
    """More results than anything else, many of them in one commit."""

    async def _act(self, runtime: Runtime) -> None:
        await asyncio.sleep(self.rng.random() * 12)
        acts: list[Callable[[Runtime], Awaitable[None]]] = [
            self._ask,
            self._deliver,
            self._abort,
            self._follow,
        ]
        await self.rng.choices(acts, [35, 50, 5, 10])[0](runtime)

    async def _ask(self, runtime: Runtime) -> None:
        """Sent and not waited for: the answer is a wait."""
        key, said = self._something()
        await self._say(runtime, key, said)

    async def _deliver(self, runtime: Runtime) -> None:
        """All that was begun of late, at once; some of it twice, and differently."""
        async with asyncio.TaskGroup() as group:
            for call_id in self.rng.choices(self.stage.jobs, k=BURST) if self.stage.jobs else ():
                done: Result = Completed(f"result of {call_id}", "Done", {"n": 1})
                given = self.rng.choice([done, done, done, done, Failed("it broke"), Failed(CANCELLED)])
                group.create_task(self._result(runtime, call_id, given))

    async def _result(self, runtime: Runtime, call_id: CallId, result: Result) -> None:
        doors = runtime.async_tools
        try:
            match result:
                case Completed(output, title, metadata):
                    await doors.submit_result(call_id, output, title=title, metadata=metadata)
                case Failed(error) if error == CANCELLED:
                    await doors.cancel(call_id)
                case Failed(error):
                    await doors.submit_error(call_id, error)
        except RequestError:
            self.stage.count("refused results")
        else:
            self.stage.count("results")
            self.stage.acknowledged_result(call_id, result)


def check_owed(path: Path) -> int:
    """What was settled is owed to whoever wanted to hear of it, once and as it is; returns how much."""
    with closing(sqlite3.connect(path)) as db:
        calls = [msgspec.json.decode(row[0], type=Call) for row in db.execute("SELECT body FROM call")]
        owed = {row[0]: row[1:] for row in db.execute("SELECT call_id, url, secret, body FROM delivery")}
    count = len(owed)
    for call in (call for call in calls if call.is_settled):
        row, right = owed.pop(call.id, None), (HOOK, f"of {call.id}", encode(webhook_body(call)))
        due = call.later is not None and call.later.webhook_url  # or said when the result was in already
        if row != right if due else row is not None and (row != right or not call.input["hook"]):
            raise Violation(f"{call.id} is settled, and what is owed to others is {row}")
    if owed:
        raise Violation(f"owed for calls that are not settled: {sorted(owed)}")
    return count
