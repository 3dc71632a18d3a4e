"""A client streams from `asyncagents serve`, which is killed and started again: nothing is missed."""

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec.structs import replace

from asyncagents.client import open_client
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import Message, UserMessage
from asyncagents.domain.conversation.part import Part, ReasoningPart, TextPart
from asyncagents.domain.event import (
    Event,
    MessageRemoved,
    MessageUpdated,
    PartDelta,
    PartRemoved,
    PartUpdated,
)
from asyncagents.domain.id import MessageId, PartId
from asyncagents.testing.provider import Reply
from tests.support.process.command_line import PATIENCE, Desk, open_desk
from tests.support.process.serve_kit import serving

PROMPTS = 20
KILLS = 4
DELTAS = 25
"""More than an answer has: each server ends one at least, so that no session is given up as a crash loop."""
SCRIPT = {
    f"no. {n}": [Reply(text=f"Answer {n}: " + "word " * 20, chunks=20, gap=0.005)] for n in range(PROMPTS)
}


class EventMirror:
    """What a program shows that only listens."""

    def __init__(self) -> None:
        self.messages: dict[MessageId, Message] = {}
        self.parts: dict[PartId, Part] = {}
        self.deltas = 0
        self._more = asyncio.Event()

    async def listen(self, events: AsyncIterator[Event]) -> None:
        async for event in events:
            self._take(event)
            self._more.set()

    def _take(self, event: Event) -> None:
        match event:
            case MessageUpdated(info=info):
                self.messages[info.id] = info
            case MessageRemoved(message_id=message_id):
                self.messages.pop(message_id, None)
            case PartUpdated(part=part) if part.id is not None:
                self.parts[part.id] = part  # type: ignore[assignment]
            case PartRemoved(part_id=part_id):
                self.parts.pop(part_id, None)
            case PartDelta(part_id=part_id, offset=offset, delta=delta):
                self.deltas += 1
                part = self.parts[part_id]
                assert isinstance(part, TextPart | ReasoningPart)
                if offset == len(part.text):
                    self.parts[part_id] = replace(part, text=part.text + delta)
            case _:
                pass

    async def until(self, deltas: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.deltas < deltas:
                self._more.clear()
                await self._more.wait()

    async def until_shows(self, entries: tuple[MessageWithParts, ...]) -> None:
        """All of it, and nothing else."""
        async with asyncio.timeout(PATIENCE):
            while not self._shows(entries):
                self._more.clear()
                await self._more.wait()

    def _shows(self, entries: tuple[MessageWithParts, ...]) -> bool:
        messages = {entry.info.id: entry.info for entry in entries}
        return self.messages == messages and self.parts == {p.id: p for e in entries for p in e.parts}


async def serve_and_kill(desk: Desk, screen: EventMirror, over: asyncio.Event) -> None:
    """One server after the other, each killed in the middle of an answer; the last one lives."""
    for _ in range(KILLS):
        async with serving(desk) as server:
            await screen.until(screen.deltas + DELTAS)
            await server.end(signal.SIGKILL)
    async with serving(desk):
        await over.wait()


async def test_a_client_misses_nothing_of_a_server_that_is_killed_again_and_again(tmp_path: Path) -> None:
    screen, over = EventMirror(), asyncio.Event()
    async with (
        open_desk(tmp_path, SCRIPT) as (desk, _),
        open_client(data=desk.data, patience=PATIENCE) as client,
    ):
        async with serving(desk):
            session = await client.create_session(directory=desk.project)
        async with asyncio.timeout(2 * PATIENCE), asyncio.TaskGroup() as group:
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
