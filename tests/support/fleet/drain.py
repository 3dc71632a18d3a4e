"""`asyncagents worker`, told to end while turns are under way."""

import asyncio
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from asyncagents import Runtime, ScriptedModel, open_runtime
from asyncagents.config.fleet import HEARTBEAT_VARIABLE, POOL_VARIABLE, STORE_VARIABLE, Fleet
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.id import MessageId
from asyncagents.testing.provider import Provider, Reply
from tests.support.fleet.crew import AT_WORK, count
from tests.support.postgres.database import a_database
from tests.support.postgres.server import Server
from tests.support.process.command_line import PROCESS_PATIENCE, Desk, open_desk, read_until
from tests.support.wait import wait_until

POOL = "p"
DRAIN = 3.0
SHORT = 1.5
LONG = 10 * PROCESS_PATIENCE
HEARTBEAT = 30.0
"""Nobody is found dead in this time: who goes on at once was told to."""


class DrainResult(Struct, frozen=True):
    code: int
    ended: float
    """Seconds from the signal to the end of the process."""
    next_answered: float
    """From the signal to the answer of what was asked right after it."""
    went_on: float
    """From the end of the process to the next try of the turn that was cut off."""
    asked: dict[str, int]
    """How often the model was asked for each prompt."""
    answers: dict[str, str]


class Prompts:
    """Of sessions of their own, and what came of them."""

    def __init__(self, runtime: Runtime, directory: Path) -> None:
        self._runtime = runtime
        self._directory = directory
        self.sent: dict[str, MessageId] = {}

    async def send(self, text: str) -> None:
        _, self.sent[text] = await self._runtime.begin(text, directory=self._directory, model="local/m")

    async def answer(self, text: str) -> str:
        """As soon as there is one."""
        answer = await wait_until(lambda: self._runtime.answer_to(self.sent[text]), seconds=PROCESS_PATIENCE)
        assert isinstance(answer.info, AssistantMessage)
        return "".join(getattr(part, "text", "") for part in answer.parts)


@asynccontextmanager
async def open_worker(desk: Desk, store: str) -> AsyncIterator[Process]:
    """Until the block ends; then whatever is left of it is killed."""
    env = {STORE_VARIABLE: store, POOL_VARIABLE: POOL, HEARTBEAT_VARIABLE: str(HEARTBEAT)}
    process = await desk.start("worker", "--drain", str(DRAIN), "--concurrency", "8", env=env)
    try:
        await read_until(process, "working on ")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def drain(directory: Path, server: Server) -> DrainResult:
    """One worker has two turns under way when it is told to end: a short one and one that takes too long."""
    script = {
        "short": [Reply(text="a short answer", delay=SHORT)],
        "long": [
            Reply(text="never heard", delay=LONG, times=1),
            Reply(text="a long answer"),
        ],
        "next": [Reply(text="the next answer")],
    }
    async with a_database(server) as store, open_desk(directory, script) as (desk, provider):
        fleet = Fleet(store=store, pool=POOL, pools=(POOL,), heartbeat_seconds=HEARTBEAT)
        model = ScriptedModel({})
        async with (
            open_runtime(desk.data, model=model, serve=False, fleet=fleet) as runtime,
            open_worker(desk, store) as first,
        ):
            prompts = Prompts(runtime, desk.project)
            await prompts.send("long")
            await prompts.send("short")
            await provider.wait_for(lambda: provider.asked >= 2)
            async with open_worker(desk, store):
                return await _read_drained(prompts, provider, first, store)


async def _read_drained(prompts: Prompts, provider: Provider, first: Process, store: str) -> DrainResult:
    told = time.monotonic()
    first.send_signal(signal.SIGTERM)
    await prompts.send("next")
    answers = {"next": await prompts.answer("next")}
    answered = time.monotonic()
    async with asyncio.timeout(PROCESS_PATIENCE):
        await first.communicate()
    ended = time.monotonic()
    answers["long"] = await prompts.answer("long")
    again = time.monotonic()
    answers["short"] = await prompts.answer("short")
    assert not await count(store, AT_WORK)
    assert first.returncode is not None
    return DrainResult(
        code=first.returncode,
        ended=ended - told,
        next_answered=answered - told,
        went_on=again - ended,
        asked={text: sum(_asks(seen.body, text) for seen in provider.requests) for text in prompts.sent},
        answers=answers,
    )


def _asks(body: dict[str, Any], text: str) -> bool:
    said = next(message["content"] for message in body["messages"] if message["role"] == "user")
    return text in (said, said[0] if isinstance(said, str) else said[0].get("text"))
