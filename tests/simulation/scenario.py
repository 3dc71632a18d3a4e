"""One seed: processes that crash, clients that prompt, answer, deliver and abort, and then the quiet end."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from asyncagents.app.assemble import Setup
from asyncagents.domain.call.call import Always, Answers, Completed, Failed, Once, Reject, Reply, Result
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.id import CallId, SessionId
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.errors import NotFound, RequestError, StoreError
from asyncagents.testing.clock import SeededRng
from asyncagents.testing.inside import inside
from asyncagents.testing.process import Machine, Odds, Process
from tests.simulation.cast import Cast
from tests.simulation.fault_watch import FaultWatch, faults_in
from tests.simulation.mirror import Mirror
from tests.simulation.rows import Rows
from tests.simulation.stage import Ended, Stage, Violation
from tests.simulation.tree_clients import TreeClients
from tests.simulation.trees import Grove, grove

T = TypeVar("T")
ACTIVE_SECONDS = 25


ODDS = ([0, 10, 30, 60], [0, 0, 20], [0, 300, 1500])
"""Of crashes and of writes that fail, in a thousand; of a full disk, in ten thousand."""


class Lost(Exception):
    """The process died under the request: whether it was done is not known."""


class Scenario:
    crews = (1, 1, 2)
    """How many processes begin."""
    quiet_seconds = 600
    look_seconds = 5

    def __init__(self, seed: int, path: Path) -> None:
        self.rng = random.Random(f"scenario:{seed}")
        self.grove = self.draw_grove(seed)
        rows = Rows(path) if self.grove else None
        self.stage = Stage(rows, crowd=self.grove.limits.concurrent if self.grove else 0)
        self.stage.dead = lambda number: self.everybody[number].dead
        self.everybody: dict[int, Process] = {}
        self.setup = Cast(self.stage, seed, self.grove).setup
        self.trees = TreeClients(self) if self.grove else None
        if self.grove is not None:  # with one place the sessions of a tree work one after the other
            self.quiet_seconds = 2 * self.quiet_seconds
        crash, fail, full = (self.rng.choice(each) for each in ODDS)
        self.odds = Odds(SeededRng(seed + 1), crash=crash, fail=fail, full=full)
        self.writes_fail = fail + full > 0
        self.machine = Machine(path, seed, self.odds)
        self.processes: list[Process] = []
        self._number = 0
        self._group: asyncio.TaskGroup | None = None
        self._keys = 0
        self.dark_until = 0.0
        """Nobody starts a process before."""

    def draw_grove(self, seed: int) -> Grove | None:
        """Return what is drawn for a world in which sessions launch sessions."""
        return grove(seed)

    async def play(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            for _ in range(self.rng.choice(self.crews)):
                self._start()
            keeper = group.create_task(self._keep_alive())
            await self._create_sessions()
            acts = self._begin(group)
            await asyncio.sleep(ACTIVE_SECONDS)
            self.odds.on = False
            await self._drain(acts)
            for mirror in self.stage.mirrors:
                await self._catch_up(mirror)
            keeper.cancel()
            for process in self._living():
                process.stop()

    def _begin(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        acts = [group.create_task(self._client()) for _ in range(self.rng.randrange(6, 18))]
        if self.trees is not None:
            acts += self.trees.begin(group)
        acts.append(group.create_task(self._nemesis()))
        acts.append(group.create_task(self._follow()))
        if self.stage.rows is not None:
            acts.append(group.create_task(self._watch_callers()))
        return acts

    async def _watch_callers(self) -> None:
        """Z-01: whatever is committed, no caller is held for the outside alone."""
        rows = self.stage.rows
        assert rows is not None
        while asyncio.get_running_loop().time() < 2 * ACTIVE_SECONDS:
            await asyncio.sleep(0.4)
            if held := rows.held():
                self.stage.violate(f"Z-01: {held} hold their callers, and wait for the outside alone")

    # Processes.

    def _start(self) -> None:
        assert self._group is not None
        self._number += 1
        process = Process(self.machine, self._number, self._watched)
        self.processes.append(process)
        self.everybody[process.number] = process
        self._group.create_task(self._live(process))

    async def _live(self, process: Process) -> None:
        """Let a process live; it may be killed, and ends by no exception."""
        try:
            await process.live()
        except Exception as error:
            for fault in faults_in(error):
                self.stage.reach_edge("process", fault)
            raise

    def _watched(self, process: Process) -> Setup:
        return replace(self.setup(process), observer=FaultWatch(self.stage.reach_edge))

    def _living(self) -> list[Process]:
        return [p for p in self.processes if p.started.is_set() and not p.dead and not p.over.is_set()]

    async def _keep_alive(self) -> None:
        """Somebody starts a new process when none is left, sooner or later."""
        while True:
            await asyncio.sleep(0.1 + self.rng.random() * 2)
            for process in self.processes:
                if process.dead:
                    self.stage.died(process.number)
            self.processes = [p for p in self.processes if not p.over.is_set() and not p.dead]
            if asyncio.get_running_loop().time() < self.dark_until:
                continue
            if not self.processes or (len(self.processes) < 2 and self.rng.random() < 0.1):
                self._start()

    async def _nemesis(self) -> None:
        """Crashes between the commits, and orderly stops."""
        for _ in range(self.rng.choice([0, 1, 1, 2, 3])):
            await asyncio.sleep(self.rng.random() * ACTIVE_SECONDS / 2)
            living = self._living()
            if living:
                self._strike(self.rng.choice(living))

    def _strike(self, victim: Process) -> None:
        drawn = self.rng.random()
        if drawn < 0.6:
            victim.crash()
            self.stage.count("kills")
        elif drawn < 0.8:
            victim.stop()
            self.stage.count("stops")
        else:  # it lives on, but everybody thinks that it is dead
            self.stage.suspects.add(victim.number)
            victim.disown()
            self.stage.count("usurped")

    async def _some_runtime(self) -> tuple[Process, Runtime]:
        while not (living := self._living()):  # noqa: ASYNC110  time is virtual
            await asyncio.sleep(0.2)
        process = self.rng.choice(living)
        assert process.runtime is not None
        return process, process.runtime

    async def request(self, ask: Callable[[Runtime], Awaitable[T]]) -> T:
        """One request to one process. `Lost`: it died, or could not write."""
        process, runtime = await self._some_runtime()
        over = asyncio.ensure_future(process.over.wait())
        asked = asyncio.ensure_future(ask(runtime))
        await asyncio.wait({asked, over}, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if not asked.done() or process.dead:
            asked.cancel()
            await asyncio.wait({asked})
            raise Lost
        try:
            return asked.result()
        except StoreError as error:
            raise Lost from error
        except Exception as error:
            for fault in faults_in(error):
                self.stage.reach_edge("request", fault)
                self.stage.check_unbroken()
            raise

    async def insist(self, ask: Callable[[Runtime], Awaitable[T]]) -> T:
        """A client that repeats its request, with the same key, until it is acknowledged."""
        while True:
            try:
                return await self.request(ask)
            except Lost:
                await asyncio.sleep(self.rng.random())

    # Clients.

    async def _create_sessions(self) -> None:
        for number in range(self.rng.choice([1, 1, 2, 3])):
            key = f"session{number}"
            session = await self.insist(partial(_create, key=key))
            self.stage.sessions.append(session.id)

    async def _client(self) -> None:
        await asyncio.sleep(self.rng.random() * ACTIVE_SECONDS)
        session_id = self.rng.choice(self.stage.sessions)
        act = self.rng.choices(
            [
                self.prompt,
                self.send,
                self.quiet,
                self.abort,
                self.answer_asks,
                self._deliver,
                self.compact,
            ],
            [30, 15, 5, 10, 30, 25, 8],
        )[0]
        await self.attempt(partial(act, session_id))

    async def attempt(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except Lost:
            self.stage.count("lost requests")
        except NotFound as error:
            if not self.stage.deleted and not self.stage.counts.get("clears"):
                self.stage.violate(f"I0: what was acknowledged is gone: {error}")

    def text(self, session_id: SessionId, kind: str = "prompt") -> tuple[str, str]:
        self._keys += 1
        return f"key{self._keys}", f"{self.stage.name(session_id)}:{kind} {self._keys}"

    async def prompt(self, session_id: SessionId) -> None:
        key, text = self.text(session_id)
        send = self.insist if self.rng.random() < 0.8 else self.request
        answer = await send(lambda r: r.prompt(session_id, text, key=key))
        message_id = await self.insist(lambda r: r.send(session_id, text, key=key))
        self.stage.prompts[message_id] = text
        self.stage.answers[message_id] = answer.info.id

    async def send(self, session_id: SessionId) -> None:
        key, text = self.text(session_id)
        send = self.insist if self.rng.random() < 0.7 else self.request
        message_id = await send(lambda r: r.send(session_id, text, key=key))
        self.stage.prompts[message_id] = text

    async def quiet(self, session_id: SessionId) -> None:
        key, text = self.text(session_id, "quiet")
        message_id = await self.request(lambda r: r.send(session_id, text, key=key, wakes=False))
        self.stage.prompts[message_id] = text

    async def compact(self, session_id: SessionId) -> None:
        key, _ = self.text(session_id)
        await self.insist(partial(_wish, session_id=session_id, key=key))

    async def abort(self, session_id: SessionId) -> None:
        await self.stop(session_id, lambda r: r.abort(session_id, seconds=20))

    async def stop(self, session_id: SessionId, ask: Callable[[Runtime], Awaitable[bool]]) -> None:
        """A cancel of a session, with all below it."""
        clock = asyncio.get_running_loop().time
        asked = int(clock() * 1000)
        stopped = await self.request(ask)
        self.stage.count("aborts")
        if stopped:
            acknowledged = int(clock() * 1000)
            self.stage.aborted.setdefault(session_id, []).append((asked, acknowledged))
            self.stage.ended.append(Ended(session_id, asked, acknowledged))

    async def answer_asks(self, session_id: SessionId) -> None:
        for call in await self.insist(lambda r: r.open_calls(session_id)):
            if call.ask_id is not None:
                other = Once({"n": self.rng.randrange(9)})
                replies: list[Reply] = [Once(), Once(), other, Always(), Reject(), Reject("use another way")]
                reply = self.rng.choice(replies) if call.open and call.open.ask else self._quiz_reply()
                await self._reply(call.ask_id, reply)

    def _quiz_reply(self) -> Reply:
        replies: list[Reply] = [Answers((("A",),)), Reject()]
        return self.rng.choice(replies)

    async def _reply(self, ask_id: str, reply: Reply) -> None:
        try:
            await self.request(lambda r: r.answer(ask_id, reply))
        except RequestError:
            self.stage.count("refused answers")
        else:
            self.stage.replies[ask_id] = reply

    async def _deliver(self, session_id: SessionId) -> None:
        """Results come once, twice, differently, and for calls that are long gone."""
        for _ in range(self.rng.choice([1, 2, 3])):
            if self.stage.jobs:
                call_id = self.rng.choice(self.stage.jobs)
                results: list[Result] = [Completed(f"result of {call_id}"), Failed("it broke")]
                await self._result(call_id, self.rng.choice(results))

    async def _result(self, call_id: CallId, result: Result) -> None:
        async def give(runtime: Runtime) -> object:
            if isinstance(result, Completed):
                return await runtime.complete(call_id, result.output)
            return await runtime.fail(call_id, result.error)

        try:
            await self.request(give)
        except RequestError:
            self.stage.count("refused results")
        else:
            self.stage.acknowledged_result(call_id, result)
            self.stage.count("results")

    async def _follow(self) -> None:
        """Readers come back now and then, to any process, with the cursor they have."""
        self.stage.mirrors.append(Mirror())
        for _ in range(self.rng.randrange(4)):
            await asyncio.sleep(self.rng.random() * ACTIVE_SECONDS / 3)
            await self._catch_up(self.stage.mirrors[0])

    async def _catch_up(self, mirror: Mirror) -> None:
        cursor, more = mirror.cursor, True
        while more:
            piece = await self.insist(partial(Runtime.feed, after=cursor))
            for event in piece.events:
                mirror.apply(event)
            cursor, more = piece.cursor, piece.more
        mirror.cursor = cursor

    # The end.

    async def _drain(self, acts: list[asyncio.Task[None]]) -> None:
        """Everything that waits is answered; then everybody is served and at rest, in bounded time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.quiet_seconds
        while loop.time() < deadline:
            await asyncio.sleep(self.look_seconds)
            if self.trees is not None:
                self.trees.check_queue()
            for session_id in await self._waiting():
                await self.attempt(partial(self._settle_all, session_id))
            if all(act.done() for act in acts) and await self._at_rest():
                return
        raise Violation(
            f"I6: not at rest after {self.quiet_seconds} s: {await self.insist(lambda r: r.statuses())}"
        )

    async def _waiting(self) -> list[SessionId]:
        if self.trees is None:
            return self.stage.sessions
        return list(await self.insist(lambda r: r.statuses()))

    async def _settle_all(self, session_id: SessionId) -> None:
        for call in await self.insist(lambda r: r.open_calls(session_id)):
            if call.open and call.open.ask and call.ask_id:
                await self._reply(call.ask_id, Once())
            elif call.open and call.open.question and call.ask_id:
                await self._reply(call.ask_id, Answers((("A",),)))
            elif call.open and call.open.kind == "async":
                await self._result(call.id, Completed(f"result of {call.id}"))

    async def _at_rest(self) -> bool:
        if self.trees is not None:
            return await self.trees.at_rest()
        for session_id in self.stage.sessions:
            status = await self.insist(partial(Runtime.status, session_id=session_id))
            if not isinstance(status, Idle):
                return False
        return True


async def _create(runtime: Runtime, *, key: str) -> Session:
    return await runtime.create_session(key=key, directory="/project")


async def _wish(runtime: Runtime, *, session_id: SessionId, key: str) -> object:
    return await inside(runtime).store.admit(
        inside(runtime).inputs.build_compaction(session_id, key=key, options={})
    )
