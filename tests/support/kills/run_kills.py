"""`asyncagents run`, killed at any moment and resumed: `python -m tests.support.kills.run_kills`."""

import argparse
import asyncio
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import Process
from collections import Counter
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from asyncagents import MessageWithParts, Runtime
from asyncagents.cli.run.result import failure_text
from asyncagents.domain.conversation.message import AssistantMessage, UserMessage
from asyncagents.testing.provider import Provider
from tests.simulation.stage import Violation
from tests.support.process.command_line import Desk, open_desk

WORDS = 12
GAP_SECONDS = 0.015
BORN_SECONDS = 0.6
"""So long a process takes to start, about; a kill may come at any time in it."""
CLEAN = {0, 1}
"""How a run that nobody kills may end: answered, or with an error that says so (a crash loop)."""


class Summary(Struct, frozen=True):
    kills: int
    seconds: float
    counts: dict[str, int]


class Prompt(Struct, frozen=True):
    number: int
    key: str
    words: tuple[str, ...]
    """The command that sends it."""
    answer: str


class Siege:
    def __init__(self, desk: Desk, provider: Provider, seed: int) -> None:
        self.desk = desk
        self.provider = provider
        self.rng = random.Random(f"run:{seed}")
        self.prompts: list[Prompt] = []
        self.answered: dict[str, str] = {}
        """What a run that was not killed printed, by key."""
        self.counts: Counter[str] = Counter()

    def new_prompt(self) -> Prompt:
        """In a session of its own, or in the newest one."""
        number = len(self.prompts)
        answer = " ".join(f"{number}.{word}" for word in range(WORDS))
        reply = json.dumps({"text": answer, "chunks": WORDS, "gap": GAP_SECONDS})
        key, text = f"key{number}", f"prompt {number} [[{reply}]]"
        where = ("--continue",) if self.prompts and self.rng.random() < 0.4 else ()
        prompt = Prompt(number, key, ("run", text, "--key", key, *where), answer)
        self.prompts.append(prompt)
        return prompt

    async def strike(self) -> None:
        """Send a prompt and kill whoever works on it; then go on in one way or another, or not yet."""
        prompt = self.new_prompt()
        await self.kill(*prompt.words)
        match self.rng.choice(["again", "continue", "killed again", "later"]):
            case "again":
                await self.finish(prompt)
            case "continue" if await self._has_sessions():
                await self._clean("run", "--continue")
            case "killed again":
                await self.kill(*prompt.words)
            case _:
                self.counts["left"] += 1

    async def kill(self, *words: str) -> None:
        process = await self.desk.start(*words)
        reading = asyncio.ensure_future(self._moment(process))
        waiting = asyncio.ensure_future(process.wait())
        await asyncio.wait([reading, waiting], return_when=asyncio.FIRST_COMPLETED)
        with suppress(ProcessLookupError):
            process.kill()
        await waiting
        await reading
        died = process.returncode == -signal.SIGKILL
        self.counts["kills" if died else "too late"] += 1

    async def _moment(self, process: Process) -> None:
        """While it starts, when it has asked the model, or after so many of its words."""
        asked = self.provider.asked
        match self.rng.choice(["born", "asked", "said", "said"]):
            case "born":
                await asyncio.sleep(self.rng.random() * BORN_SECONDS)
            case "asked":
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.provider.wait_requests(asked + 1), timeout=BORN_SECONDS * 5)
                await asyncio.sleep(self.rng.random() * 0.01)
            case _:
                assert process.stdout is not None
                wanted = self.rng.randrange(1, WORDS * 4)
                while wanted > 0 and (piece := await process.stdout.read(wanted)):
                    wanted -= len(piece)

    async def finish(self, prompt: Prompt) -> None:
        """The same command again: its key makes that harmless."""
        self.answered[prompt.key] = await self._clean(*prompt.words)

    async def _clean(self, *words: str) -> str:
        ran = await self.desk.run(*words)
        if ran.code not in CLEAN or "Traceback" in ran.err:
            raise Violation(f"{words} ended with {ran.code}: {ran.err}")
        self.counts["gone on"] += 1
        return ran.out

    async def _has_sessions(self) -> bool:
        async with self.desk.look() as runtime:
            return bool(await runtime.roots(self.desk.project, limit=1))

    async def peace(self) -> None:
        """Every session is run to its rest, by its id."""
        async with self.desk.look() as runtime:
            sessions = [session.id for session in await runtime.roots(self.desk.project, limit=10_000)]
            busy = await runtime.statuses()
        for session_id in sessions:
            if session_id in busy:
                await self._clean("run", "--session", session_id)

    async def check(self) -> None:
        seen: Counter[str] = Counter()
        async with self.desk.look() as runtime:
            if busy := await runtime.statuses():
                raise Violation(f"not at rest: {busy}")
            for session in await runtime.roots(self.desk.project, limit=10_000):
                entries = await runtime.messages(session.id)
                for entry in (each for each in entries if isinstance(each.info, UserMessage)):
                    seen[entry.text] += 1
                    await self._check_prompt(runtime, entry, entries)
        self.counts["accepted"] = len(seen)
        if twice := [text for text, times in seen.items() if times != 1]:
            raise Violation(f"accepted more than once: {twice}")
        if lost := [each for each in self.prompts if each.key in self.answered and each.words[1] not in seen]:
            raise Violation(f"answered, and not there: {lost}")

    async def _check_prompt(
        self, runtime: Runtime, asked: MessageWithParts, entries: tuple[MessageWithParts, ...]
    ) -> None:
        """One answer, whole, its own or that of a prompt which was read together with it; or an error."""
        prompt = next(each for each in self.prompts if each.words[1] == asked.text)
        answer = await runtime.answer_to(asked.info.id)
        if answer is None or not isinstance(answer.info, AssistantMessage):
            raise Violation(f"prompt {prompt.number} was accepted and never answered")
        if answer.info.error is not None:
            if "crash_loop" not in failure_text(answer.info.error):
                raise Violation(f"prompt {prompt.number} ended with {answer.info.error}")
            self.counts["given up"] += 1
            return
        later = {each.answer for each in self.prompts if each.number >= prompt.number}
        if answer.text not in later:
            raise Violation(f"prompt {prompt.number} was answered with {answer.text!r}")
        whole = [each for each in entries if each.text == answer.text and _ended_well(each)]
        if len(whole) != 1:
            raise Violation(f"the answer to prompt {prompt.number} is there {len(whole)} times")
        self.counts["cut off"] += sum(
            isinstance(each.info, AssistantMessage)
            and each.info.parent_id == asked.info.id
            and each.info.error is not None
            for each in entries
        )
        self.counts["answered"] += 1
        printed = self.answered.get(prompt.key)
        if printed is not None and not printed.endswith(f"{answer.text}\n"):
            raise Violation(
                f"prompt {prompt.number} is answered with {answer.text!r}, {printed!r} was printed"
            )


def _ended_well(entry: MessageWithParts) -> bool:
    return isinstance(entry.info, AssistantMessage) and entry.info.error is None


async def kill_runs(count: int, seed: int, directory: Path) -> Summary:
    """So many kills of `asyncagents run`, then peace and the checks; raises `Violation`."""
    began = time.monotonic()
    async with open_desk(directory, remember=False) as (desk, provider):
        siege = Siege(desk, provider, seed)
        while siege.counts["kills"] < count:
            await siege.strike()
        await siege.peace()
        await siege.check()
    return Summary(siege.counts["kills"], time.monotonic() - began, dict(siege.counts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="run-kills"))
    try:
        summary = asyncio.run(kill_runs(options.kills, options.seed, directory))
    except (Violation, BaseExceptionGroup) as error:
        sys.stdout.write(f"violation: {error!r}; see {directory}\n")
        return 1
    shutil.rmtree(directory)
    sys.stdout.write(f"{summary.kills} kills of run in {summary.seconds:.0f} s: {summary.counts}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
