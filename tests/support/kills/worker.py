"""A process that serves a data directory and tells a ledger what it does to the world, until it is killed."""

import asyncio
import os
import random
import sys
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from asyncagents import Ask, Completed, Failed, Pending, Tool, ToolContext, open_runtime
from asyncagents.domain.call.ask import Option, Question
from asyncagents.domain.conversation.session import CacheTokens, Tokens
from asyncagents.engine.tool import AnyTool, Outcome
from asyncagents.llm.model import (
    ChatRequest,
    ModelEvent,
    ModelTurn,
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
from tests.simulation.stage import session_of, unanswered

What: TypeAlias = Literal["up", "asked", "enter", "leave", "effect", "job", "wrong", "killing", "stopped"]
TOOLS = ("look", "look", "put", "put", "pay", "pay", "pay", "job", "job", "gate", "quiz", "nap", "sad")
LONGEST_TURN = 4


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    what: What
    worker: int
    at: int
    """Milliseconds, by the clock that all processes here share."""
    session: str = ""
    call: str = ""
    tool: str = ""
    marks: tuple[str, ...] = ()
    """A mark for each message of a model request."""


class Ledger:
    """The world: a file that all append to, a write a line, so that its order is the order of events."""

    def __init__(self, path: Path, worker: int) -> None:
        self._worker = worker
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(
        self, what: What, *, session: str = "", call: str = "", tool: str = "", marks: tuple[str, ...] = ()
    ) -> None:
        line = Line(
            what=what, worker=self._worker, at=now(), session=session, call=call, tool=tool, marks=marks
        )
        # A kill may tear a line at a page's end: the next one begins on a line of its own all the same.
        os.write(self._fd, b"\n" + msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        os.close(self._fd)


def now() -> int:
    return time.time_ns() // 1_000_000


class Do(Struct, frozen=True):
    """Do something."""

    n: int = 0


class WildModel:
    """What it says depends on the seed and on what it was marks. Prompts begin with their session's id."""

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self._ledger = ledger
        self._seed = seed

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        session = session_of(request.messages)
        marks = tuple(f"{zlib.crc32(repr(message).encode()):08x}" for message in request.messages)
        self._ledger.write("asked", session=session, marks=marks)
        if wrong := unanswered(request.messages):
            self._ledger.write("wrong", session=session, call=wrong)
        self._ledger.write("enter", session=session)
        try:
            async for event in self._speak(request):
                yield event
        finally:
            self._ledger.write("leave", session=session)

    async def _speak(self, request: ChatRequest) -> AsyncGenerator[ModelEvent, None]:
        rng = random.Random(f"{self._seed}:{len(request.messages)}:{request.messages[-1]}")
        yield StreamStart()
        await asyncio.sleep(rng.random() * 0.02)
        yield TextStart("t")
        for number in range(rng.randrange(4)):
            await asyncio.sleep(rng.choice([0, 0.001, 0.02]))
            yield TextDelta("t", f"chunk{number} ")
        yield TextEnd("t")
        for event in _calls(rng, request):
            yield event
        tokens = Tokens(input=rng.randrange(50), output=1, reasoning=0, cache=CacheTokens(read=0, write=0))
        yield StepFinish("stop", tokens if rng.random() < 0.8 else None)
        yield StreamFinish()


def _calls(rng: random.Random, request: ChatRequest) -> list[ModelEvent]:
    """Fewer and fewer the longer the turn: it ends."""
    steps = 0
    for told in reversed(request.messages):
        if isinstance(told, UserTurn):
            break
        steps += isinstance(told, ModelTurn)
    if rng.random() > 0.85 - 0.85 * steps / LONGEST_TURN:
        return []
    events: list[ModelEvent] = []
    for number in range(rng.choice([1, 1, 2, 3])):
        key, tool = f"c_{session_of(request.messages)}_{len(request.messages)}_{number}", rng.choice(TOOLS)
        events += [ToolCallStart(key, tool), ToolCallReady(key, tool, {"n": rng.randrange(9)})]
    return events


class Props:
    """Tools of every effect. Each works a little before and after it touches the world."""

    def __init__(self, ledger: Ledger, seed: int) -> None:
        self._ledger = ledger
        self._seed = seed

    def tools(self) -> tuple[AnyTool, ...]:
        return (
            Tool("look", Do, self._watched(self._look), effect="none"),
            Tool("put", Do, self._watched(self._pay), effect="idempotent"),
            Tool("pay", Do, self._watched(self._pay)),
            Tool("gate", Do, self._watched(self._pay), plan=self._ask),
            Tool("job", Do, self._watched(self._job)),
            Tool("quiz", Do, self._watched(self._quiz), effect="none"),
            Tool("nap", Do, self._watched(self._nap), effect="none"),
            Tool("sad", Do, self._watched(self._sad), effect="none"),
        )

    def _watched(
        self, run: Callable[[Do, ToolContext], Awaitable[Outcome]]
    ) -> Callable[[Do, ToolContext], Awaitable[Outcome]]:
        async def watched(args: Do, context: ToolContext) -> Outcome:
            self._ledger.write("enter", session=context.session_id, call=context.call_id)
            try:
                return await run(args, context)
            finally:
                self._ledger.write("leave", session=context.session_id, call=context.call_id)

        return watched

    async def _work(self, args: Do) -> None:
        await asyncio.sleep(args.n * 0.003)

    async def _ask(self, args: Do, context: ToolContext) -> tuple[Ask, ...]:
        return (Ask("gate", (f"{args.n}",)),)

    async def _look(self, args: Do, context: ToolContext) -> Outcome:
        await self._work(args)
        return Completed("seen")

    async def _pay(self, args: Do, context: ToolContext) -> Outcome:
        await self._work(args)
        self._ledger.write("effect", session=context.session_id, call=context.call_id, tool="pay")
        await self._work(args)
        return Completed("paid")

    async def _job(self, args: Do, context: ToolContext) -> Outcome:
        """Whoever reads the ledger may have the result before this tool has said that it waits for it."""
        self._ledger.write("job", session=context.session_id, call=context.call_id)
        await self._work(args)
        return Pending(note="started", seconds=(1 + args.n) * 0.2)

    async def _quiz(self, args: Do, context: ToolContext) -> Outcome:
        question = Question(question="Which?", header="Q", options=(Option(label="A", description="a"),))
        return Pending(kind="question", questions=(question,), seconds=None)

    async def _nap(self, args: Do, context: ToolContext) -> Outcome:
        return Pending(kind="wait", seconds=args.n * 0.02)

    async def _sad(self, args: Do, context: ToolContext) -> Outcome:
        return Failed("no")


async def serve(data: Path, ledger: Ledger, seed: int) -> None:
    """Until its standard input ends, as it also does when whoever started it dies."""
    async with open_runtime(data, model=WildModel(ledger, seed), tools=Props(ledger, seed).tools()):
        ledger.write("up")
        await asyncio.to_thread(sys.stdin.buffer.read)


if __name__ == "__main__":
    _, where, written_to, number, its_seed = sys.argv
    asyncio.run(serve(Path(where), Ledger(Path(written_to), int(number)), int(its_seed)))
