"""A fan-out whose process is killed often: `python -m tests.support.kills.task_kills --rounds 20`."""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from asyncagents import Runtime, open_runtime
from asyncagents.domain.id import SessionId
from asyncagents.testing.provider import Provider, Reply, ToolUse, open_provider
from tests.simulation.hunt import reason
from tests.simulation.stage import Violation
from tests.support.kills.task_check import FINISHED, check_fan_out, job, result
from tests.support.kills.task_worker import MODEL, local_config
from tests.support.path import ROOT

JOBS = 30
KILLS = 5
HELD_UNTIL = 2
"""So many lives pass before the first job can end: the last of them is killed while it asks."""
REST_SECONDS = 100
PROMPT = "fan out"


class Summary(Struct, frozen=True):
    kills: int
    seconds: float
    counts: dict[str, int]


class Answers(dict[str, Sequence[Reply]]):
    """What the provider says to each prompt, and to the notice that tells of the last end."""

    def __init__(self) -> None:
        super().__init__()
        self.holds_first = True
        """Whether the first job gets no answer yet to what its tools returned."""

    def answers_without_first(self) -> int:
        """How many answers there are at least while the first job gets none."""
        return 1 + sum(len(self[job(number)]) for number in range(1, JOBS))

    def get(self, text: str, default: object = None) -> Sequence[Reply] | None:  # type: ignore[override]
        if text.endswith(f"Task Progress: {JOBS}/{JOBS}"):
            return [Reply(text=FINISHED, delay=0.05)]
        if self.holds_first and text == job(0):
            return [self[text][0], Reply(text="", delay=3600)]
        return super().get(text)


def answers(rng: random.Random) -> Answers:
    """The parent launches all in one step; each child uses a tool or two and says what it found."""
    launches = tuple(
        ToolUse("asyncagents_task", {"description": job(n), "prompt": job(n), "agent": "general"})
        for n in range(JOBS)
    )
    script = Answers()
    script[PROMPT] = [
        Reply(text="Go.", tools=launches, gap=0.002),
        *[Reply(text="waiting", delay=0.02)] * JOBS,
    ]
    for number in range(JOBS):
        uses = tuple(
            ToolUse(rng.choice(["pay", "put"]), {"ms": rng.randrange(1, 30)})
            for _ in range(rng.choice([1, 1, 2]))
        )
        last = Reply(text=result(number), chunks=4, gap=rng.random() * 0.03)
        script[job(number)] = [Reply(text="", tools=uses, delay=rng.random() * 0.1), last]
    return script


class Siege:
    """One worker at a time, and whoever kills it."""

    def __init__(self, directory: Path, provider: Provider, script: Answers, rng: random.Random) -> None:
        self._script = script
        self.data = directory / "data"
        self.ledger = directory / "ledger"
        self._directory = directory
        self._provider = provider
        self._rng = rng
        self._at_once = rng.choice([4, 8, 20, 40])
        self._lives = 0
        self._worker: Process | None = None

    async def start(self) -> None:
        self._lives += 1
        arguments = [
            str(self.data),
            str(self.ledger),
            str(self._lives),
            self._provider.url,
            str(self._at_once),
        ]
        with self._errors().open("wb") as errors:
            self._worker = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "tests.support.kills.task_worker",
                *arguments,
                cwd=ROOT,
                stdin=PIPE,
                stderr=errors,
            )

    async def strike(self, number: int, runtime: Runtime, root: SessionId) -> None:
        """At some moment of its life. Every second life is a long one: a child that is cut off three times
        before it gets anywhere is given up as a crash loop, and rightly."""
        few = self._rng.choice([0, 1, 1, 2, 3, 5, 8])
        wanted = self._provider.answered + (2 * self._at_once + 4 if number % 2 else few)
        asked = self._provider.asked

        def has_come() -> bool:
            if number == HELD_UNTIL - 1:
                enough = min(wanted, self._script.answers_without_first())
                return self._provider.answered >= enough and self._asks_first_job(after=asked)
            return self._provider.answered >= wanted

        async with asyncio.timeout(REST_SECONDS):
            await first_of(self._provider.wait_for(has_come), runtime.wait_tree(root))
        await asyncio.sleep(self._rng.choice([0, 0, 0.002, 0.01, 0.05]) * self._rng.random())
        await self.end()
        self._script.holds_first = number < HELD_UNTIL - 1
        if said := self._errors().read_text(errors="replace"):
            raise Violation(f"life {self._lives} said:\n{said}")

    def _asks_first_job(self, *, after: int) -> bool:
        """Whether this life asks what gets no answer."""
        asked = (str(seen.body["messages"]) for seen in self._provider.requests[after:])
        return any(f"'{job(0)}'" in each and "'role': 'tool'" in each for each in asked)

    async def end(self) -> None:
        assert self._worker is not None
        if self._worker.returncode is None:
            self._worker.kill()
        await self._worker.wait()

    def _errors(self) -> Path:
        return self._directory / f"life{self._lives}.err"


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them is over, and cancel the others."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def fan_out(directory: Path, *, seed: int) -> Summary:
    """One turn that launches all, so many kills, then peace and the checks; raises `Violation`."""
    rng, began = random.Random(f"tasks:{seed}"), time.monotonic()
    script = answers(rng)
    async with open_provider(script) as provider:
        siege = Siege(directory, provider, script, rng)
        here = open_runtime(
            siege.data, model=MODEL, config=local_config(siege.data, provider.url), serve=False
        )
        async with here as runtime:
            root = (await runtime.create_session(directory="/project")).id
            await runtime.send(root, PROMPT)
            await _besiege(siege, runtime, root)
        counts = check_fan_out(siege.data / "asyncagents.db", siege.ledger, root, JOBS)
        counts["requests"] = provider.asked
        counts["broken off requests"] = provider.disconnects
        check_requests(provider)
    return Summary(KILLS, time.monotonic() - began, dict(counts))


async def _besiege(siege: Siege, runtime: Runtime, root: SessionId) -> None:
    await siege.start()
    try:
        for number in range(KILLS):
            await siege.strike(number, runtime, root)
            await siege.start()
        async with asyncio.timeout(REST_SECONDS):
            await runtime.wait_tree(root)
    except TimeoutError:
        live = await runtime.tasks.list(root, live=True)
        why = [
            (await runtime.tasks.why(each)).sentence for each in (root, *(task.session_id for task in live))
        ]
        raise Violation(f"not at rest after {REST_SECONDS} s: {why}") from None
    finally:
        await siege.end()


def check_requests(provider: Provider) -> None:
    """The model of the parent, asked for the last time, has heard of each end once."""
    asked = [str(seen.body["messages"]) for seen in provider.requests if PROMPT in str(seen.body["messages"])]
    for number in range(JOBS):
        if (times := asked[-1].count(f'Agent "{job(number)}" finished')) != 1:
            raise Violation(f"the model was told {times} times of {job(number)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    total: Counter[str] = Counter()
    began = time.monotonic()
    for seed in range(options.seed, options.seed + options.rounds):
        directory = Path(tempfile.mkdtemp(prefix="tasks"))
        try:
            total.update(asyncio.run(fan_out(directory, seed=seed)).counts)
        except (Violation, BaseExceptionGroup) as error:
            sys.stdout.write(f"violation with seed {seed}: {reason(error)!r}; see {directory}\n")
            return 1
        shutil.rmtree(directory)
    kills, seconds = options.rounds * KILLS, time.monotonic() - began
    sys.stdout.write(f"{options.rounds} fan-outs, {kills} kills in {seconds:.0f} s: {dict(total)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
