"""A runtime and its server whose clock is years ahead, and prompts as OpenCode's terminal sends them then."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from asyncagents.app.assemble import Setup
from asyncagents.app.workplaces import fixed_tools
from asyncagents.config.clock import SystemClock
from asyncagents.llm.scripted import ScriptedModel
from asyncagents.server.serve import ServerOptions, open_server
from asyncagents.testing.inside import inside
from tests.support.http.client import open_session
from tests.support.http.server import StageClient
from tests.support.runtime import EventListener, Stage, open_sqlite_runtime

WRAP = 27 << 36
IN_2029, IN_2031, IN_2040 = 1_877_000_000_000, 1_940_000_000_000, 2_224_000_000_000


class AheadClock:
    """Goes on as the system's clock does, from another time."""

    def __init__(self, now: int) -> None:
        self._ahead = 0
        self.set(now)

    def now(self) -> int:
        return SystemClock().now() + self._ahead

    def set(self, now: int) -> None:
        self._ahead = now - SystemClock().now()


def opencode_id(clock: AheadClock, prefix: str = "msg", number: int = 1) -> str:
    """An id as OpenCode makes it."""
    return f"{prefix}_{clock.now() * 4096 + number & (1 << 48) - 1:012x}{'C' * 14}"


@asynccontextmanager
async def serve_ahead(data: Path, clock: AheadClock) -> AsyncIterator[StageClient]:
    """A server that answers every prompt with "ok", and one session."""
    model = ScriptedModel({})
    setup = Setup(model=model, open_workplaces=fixed_tools([]))
    async with (
        open_sqlite_runtime(data, setup, clock=clock) as runtime,
        open_session() as http,
        open_server(runtime, data, ServerOptions(port=0), directory=data) as listing,
    ):
        with inside(runtime).bus.subscribe() as subscription:
            session = await runtime.create_session(directory=data)
            yield StageClient(http, listing, Stage(runtime, session.id, model, EventListener(subscription)))


async def prompt_ahead(
    at: StageClient, clock: AheadClock, text: str, session_id: str | None = None
) -> tuple[str, Any]:
    """A prompt under ids that the terminal made for it and its parts: its id, and the answer."""
    message_id = opencode_id(clock)
    parts = [
        {"id": opencode_id(clock, "prt", number), "type": "text", "text": each}
        for number, each in enumerate((text, "please"), 2)
    ]
    where = f"/session/{session_id or at.stage.session_id}/message"
    said = await at.post(where, {"messageID": message_id, "parts": parts})
    assert said.status == 200, said
    return message_id, said.json
