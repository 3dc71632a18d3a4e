"""Two processes on one data directory, killed often: `python -m tests.support.kills.worker_kills`."""

import asyncio
import random
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path

from asyncagents import Runtime, ScriptedModel, open_runtime
from asyncagents.domain.call.call import Answers, Completed, Failed, Once, Reject, Reply, Result
from asyncagents.domain.id import CallId, SessionId
from asyncagents.errors import RequestError
from tests.simulation.checker import check
from tests.simulation.mirror import Mirror
from tests.simulation.stage import Violation
from tests.support.kills.ledger import Abort, Outside, check_ledger, read_lines
from tests.support.kills.program import Summary, run_siege
from tests.support.kills.worker import Ledger, What, now
from tests.support.path import ROOT
from tests.support.wait import wait_until

WORKERS = 2
SESSIONS = 4
PROMPTERS = 4
KILLS_A_GENERATION = 8
LOOK_SECONDS = 0.003
PATIENCE_SECONDS = 0.6
REST_SECONDS = 25


class Worker:
    """A process of its own, and what it said on its standard error."""

    def __init__(self, number: int, process: Process, stderr: Path) -> None:
        self.number = number
        self.process = process
        self.stderr = stderr


class Siege:
    """The machine, its two workers, and whoever kills them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.data = directory / "data"
        self.ledger = directory / "ledger"
        self.directory = directory
        self.rng = random.Random(f"siege:{seed}")
        self.seed = seed
        self.workers: list[Worker] = []
        self.kills = 0
        self._started = 0
        self.ledger.touch()

    async def start(self) -> None:
        self._started += 1
        said = self.directory / f"worker{self._started}.err"
        arguments = [str(self.data), str(self.ledger), str(self._started), str(self.seed)]
        with said.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.support.kills.worker",
                *arguments,
                cwd=ROOT,
                stdin=PIPE,
                stderr=errors,
            )
        self.workers.append(Worker(self._started, process, said))

    async def kill(self, *victims: Worker) -> None:
        """Kill them at once. The ledger says so before they die, so nobody takes over before that."""
        for victim in victims:
            self._note("killing", victim)
        for victim in victims:
            victim.process.kill()
        for victim in victims:
            await victim.process.wait()
            self.workers.remove(victim)
            self.kills += 1
            _check_silent(victim)

    async def strike(self) -> None:
        """Kill one, or now and then all, at some moment of their work; others take their places."""
        victims = [self.rng.choice(self.workers)] if self.rng.random() < 0.9 else list(self.workers)
        await self._moment(victims[0])
        await self.kill(*victims)
        if self.workers and self.rng.random() < 0.2:
            await self.retire(self.rng.choice(self.workers))
        while len(self.workers) < WORKERS:
            await self.start()

    async def _moment(self, victim: Worker) -> None:
        """So many lines further in the victim's life; soon, if it has nothing to do."""
        seen, wanted = self._written(victim), self.rng.choice([0, 1, 2, 3, 5, 8, 13])
        with suppress(TimeoutError):
            await wait_until(
                lambda: self._written(victim) >= seen + wanted, seconds=PATIENCE_SECONDS, pause=LOOK_SECONDS
            )
        await asyncio.sleep(self.rng.choice([0, 0, 0.001, 0.005, 0.02]) * self.rng.random())

    def _written(self, worker: Worker) -> int:
        return self.ledger.read_bytes().count(b'"worker":%d,' % worker.number)

    async def retire(self, worker: Worker) -> None:
        """An orderly end: it gives its sessions back."""
        assert worker.process.stdin is not None
        worker.process.stdin.close()
        code = await worker.process.wait()
        self.workers.remove(worker)
        self._note("stopped", worker)
        _check_silent(worker)
        if code != 0:
            raise Violation(f"worker {worker.number} was asked to stop and ended with {code}")

    async def end(self) -> None:
        """Whatever happened: no process stays."""
        for worker in list(self.workers):
            worker.process.kill()
            await worker.process.wait()

    def _note(self, what: What, worker: Worker) -> None:
        with closing(Ledger(self.ledger, worker.number)) as ledger:
            ledger.write(what)


def _check_silent(worker: Worker) -> None:
    if said := worker.stderr.read_text(errors="replace"):
        raise Violation(f"worker {worker.number} said:\n{said}")


class People:
    """Clients that prompt, answer, deliver and abort, and remember what was acknowledged."""

    def __init__(self, runtime: Runtime, outside: Outside, siege: Siege) -> None:
        self.runtime = runtime
        self.outside = outside
        self.siege = siege
        self.rng = random.Random(f"people:{siege.seed}")
        self.over = asyncio.Event()
        self.current: list[SessionId] = []
        self._keys = 0

    async def new_sessions(self) -> None:
        """Fresh ones, so that histories stay short however long it goes on."""
        fresh: list[SessionId] = []
        for _ in range(SESSIONS):
            self._keys += 1
            key = f"session{self._keys}"
            session = await self.runtime.create_session(key=key, directory="/project")
            again = await self.runtime.create_session(key=key, directory="/project")
            if again.id != session.id:
                raise Violation(f"the key {key} made two sessions")
            fresh.append(session.id)
        self.outside.sessions += fresh
        self.current = fresh

    async def repeat(self, act: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Until it is over: act, pause a little, act again."""
        while not self.over.is_set():
            await act()
            await asyncio.sleep(self.rng.random() * seconds)

    async def prompt(self) -> None:
        """Sent and forgotten, sent and waited for later, or waited for at once; all under a key."""
        self._keys += 1
        session_id, key = self.rng.choice(self.current), f"key{self._keys}"
        drawn = self.rng.random()
        wakes = drawn < 0.9
        text = f"{session_id}:{'prompt' if wakes else 'quiet'} {self._keys}"
        answer = await self.runtime.prompt(session_id, text, key=key) if drawn < 0.3 else None
        message_id = await self.runtime.send(session_id, text, key=key, wakes=wakes)
        self.outside.prompts[message_id] = text
        if 0.3 < drawn < 0.6:
            answer = await self.runtime.prompt(session_id, text, key=key)
        if answer is not None:
            self.outside.answers[message_id] = answer.info.id

    async def answer(self) -> None:
        for session_id in await self.runtime.statuses():
            for call in await self.runtime.open_calls(session_id):
                if call.ask_id is None or not call.blocks_session or self.rng.random() < 0.3:
                    continue
                replies: list[Reply] = [Once(), Once(), Reject(), Reject("use another way")]
                if call.open and call.open.question:
                    replies = [Answers((("A",),)), Answers((("A",),)), Reject()]
                await self.reply(call.ask_id, self.rng.choice(replies))

    async def reply(self, ask_id: str, reply: Reply) -> None:
        try:
            await self.runtime.answer(ask_id, reply)
        except RequestError:
            self.outside.count("refused answers")
        else:
            self.outside.replies[ask_id] = reply
            self.outside.count("answers")

    async def deliver(self) -> None:
        """Results come before the call waits for them, twice, differently, and much too late."""
        jobs = [line.call for line in read_lines(self.siege.ledger) if line.what == "job"]
        for call_id in jobs[-6:]:
            drawn = self.rng.random()
            if drawn < 0.5:
                result: Result = Completed(f"result of {call_id}")
                await self.result(CallId(call_id), result if drawn < 0.4 else Failed("it broke"))

    async def result(self, call_id: CallId, result: Result) -> None:
        try:
            if isinstance(result, Completed):
                await self.runtime.complete(call_id, result.output)
            else:
                await self.runtime.fail(call_id, result.error)
        except RequestError:
            self.outside.count("refused results")
        else:
            self.outside.acknowledged_result(call_id, result)
            self.outside.count("results")

    async def abort(self) -> None:
        session_id, asked = self.rng.choice(self.current), now()
        if await self.runtime.abort(session_id):
            self.outside.aborts.append(Abort(session_id, asked, now()))

    async def follow(self) -> None:
        """A reader that comes back now and then."""
        mirror, more = self.outside.mirrors[0], True
        while more:
            piece = await self.runtime.feed(mirror.cursor)
            for event in piece.events:
                mirror.apply(event)
            mirror.cursor, more = piece.cursor, piece.more

    async def rest(self) -> bool:
        """Answer everything that waits; return whether everybody is served and at rest."""
        statuses = await self.runtime.statuses()
        for session_id in statuses:
            for call in await self.runtime.open_calls(session_id):
                if call.open and call.open.ask and call.ask_id:
                    await self.reply(call.ask_id, Once())
                elif call.open and call.open.question and call.ask_id:
                    await self.reply(call.ask_id, Answers((("A",),)))
                elif call.open and call.open.kind == "async":
                    await self.result(call.id, Completed(f"result of {call.id}"))
        return not statuses


async def besiege(directory: Path, *, kills: int, seed: int) -> Summary:
    """So many kills, then peace and the checks; raises `Violation`."""
    siege, outside = Siege(directory, seed), Outside()
    began = time.monotonic()
    try:
        for _ in range(WORKERS):
            await siege.start()
        async with open_runtime(siege.data, model=ScriptedModel({}), serve=False) as runtime:
            await _live(siege, People(runtime, outside, siege), kills)
        for worker in list(siege.workers):
            await siege.retire(worker)
    finally:
        await siege.end()
    counts = check_ledger(outside, siege.ledger, siege.data / "asyncagents.db")
    check(outside, siege.data / "asyncagents.db")
    return Summary(siege.kills, time.monotonic() - began, dict(counts + Counter(outside.counts)))


async def _live(siege: Siege, people: People, kills: int) -> None:
    people.outside.mirrors.append(Mirror())
    await people.new_sessions()
    async with asyncio.TaskGroup() as group:
        acts = [group.create_task(people.repeat(people.prompt, 0.05)) for _ in range(PROMPTERS)]
        for act, seconds in (
            (people.answer, 0.1),
            (people.deliver, 0.2),
            (people.abort, 1.0),
            (people.follow, 0.4),
        ):
            acts.append(group.create_task(people.repeat(act, seconds)))
        while siege.kills < kills or len(people.outside.prompts) < kills:
            before = siege.kills // KILLS_A_GENERATION
            await siege.strike()
            if siege.kills // KILLS_A_GENERATION > before:
                await people.new_sessions()
        people.over.set()
        await _quiet(people, acts)


async def _quiet(people: People, acts: list[asyncio.Task[None]]) -> None:
    """What an act began before its end is answered as well: first the acts end, then everybody rests."""

    async def is_over() -> bool:
        ended = all(act.done() for act in acts)
        return await people.rest() and ended

    try:
        await wait_until(is_over, seconds=REST_SECONDS)
    except TimeoutError:
        statuses = await people.runtime.statuses()
        raise Violation(f"I6: not at rest after {REST_SECONDS} s: {statuses}") from None
    await people.follow()


if __name__ == "__main__":
    sys.exit(run_siege(besiege))
