"""A client streams from `asyncagents serve`, which is killed and started again: nothing is missed."""

import asyncio
import signal
from pathlib import Path

from asyncagents.client import open_client
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.testing.provider import Reply
from tests.support.http.sdk import EventMirror
from tests.support.process.command_line import PROCESS_PATIENCE, Desk, open_desk
from tests.support.process.server import open_desk_server

PROMPTS = 20
KILLS = 4
DELTAS = 25
"""More than an answer has: each server ends one at least, so that no session is given up as a crash loop."""
SCRIPT = {
    f"no. {n}": [Reply(text=f"Answer {n}: " + "word " * 20, chunks=20, gap=0.005)] for n in range(PROMPTS)
}


async def serve_and_kill(desk: Desk, screen: EventMirror, over: asyncio.Event) -> None:
    """One server after the other, each killed in the middle of an answer; the last one lives."""
    for _ in range(KILLS):
        async with open_desk_server(desk) as server:
            await screen.until(screen.deltas + DELTAS)
            await server.end(signal.SIGKILL)
    async with open_desk_server(desk):
        await over.wait()


async def test_a_client_misses_nothing_of_a_server_that_is_killed_again_and_again(tmp_path: Path) -> None:
    screen, over = EventMirror(), asyncio.Event()
    async with (
        open_desk(tmp_path, SCRIPT) as (desk, _),
        open_client(data=desk.data, patience=PROCESS_PATIENCE) as client,
    ):
        async with open_desk_server(desk):
            session = await client.create_session(directory=desk.project)
        async with asyncio.timeout(2 * PROCESS_PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(serve_and_kill(desk, screen, over))
            async with client.events(session.id) as events:
                listening = group.create_task(screen.listen(events))
                answers = [(await client.prompt(session.id, f"no. {n}")).text for n in range(PROMPTS)]
                entries = await client.messages(session.id)
                await screen.until_shows(entries)
                listening.cancel()
                await asyncio.wait([listening])
            over.set()

    assert answers == [f"Answer {n}: {'word ' * 20}".rstrip() for n in range(PROMPTS)]
    asked = [entry.text for entry in entries if isinstance(entry.info, UserMessage)]
    assert asked == [f"no. {n}" for n in range(PROMPTS)]
