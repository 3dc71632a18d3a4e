"""Clients of asyncagents.client before a stage, and a mirror of the events that they receive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import replace

from asyncagents.client.client import Client, open_client
from asyncagents.config.config import Config
from asyncagents.domain.conversation.entry import MessageWithParts
from asyncagents.domain.conversation.message import Message
from asyncagents.domain.conversation.part import Part, ReasoningPart, TextPart
from asyncagents.domain.event import (
    Event,
    MessageRemoved,
    MessageUpdated,
    PartDelta,
    PartRemoved,
    PartUpdated,
    PermissionAsked,
)
from asyncagents.domain.id import MessageId, PartId
from asyncagents.engine.tool import AnyTool
from asyncagents.llm.scripted import Script, call, say
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.http.client import HttpClient
from tests.support.http.server import serve_runtime
from tests.support.process.command_line import PROCESS_PATIENCE
from tests.support.runtime import Stage, open_stage


@asynccontextmanager
async def open_attached_client(
    data: Path, script: Script, *tools: AnyTool
) -> AsyncIterator[tuple[Client, Stage]]:
    async with (
        open_stage(data, script, tools=tools) as at,
        open_server(at.runtime, data, ServerOptions(port=0), directory=data),
        open_client(data=data) as client,
    ):
        yield client, at


APPROVAL_CALLS = [call("bash", command="echo a"), call("read", filePath=".env")]


APPROVAL_SCRIPT: Script = {word: [list(APPROVAL_CALLS), [say("Done.")]] for word in ("go", "again", "more")}


@asynccontextmanager
async def serve_approvals(tmp_path: Path) -> AsyncIterator[tuple[Stage, HttpClient, Client]]:
    """A session whose two asks were answered with always, and a server before it."""
    data, project = tmp_path / "data", tmp_path / "project"
    project.mkdir()
    (project / ".env").write_text("KEY=1\n")
    coding = Config(data_dir=data, permission={"bash": "ask"})
    async with (
        open_stage(data, APPROVAL_SCRIPT, coding=coding, directory=project) as at,
        serve_runtime(at.runtime, data) as caller,
        open_client(data=data) as client,
    ):
        await at.runtime.send(at.session_id, "go")
        for _ in APPROVAL_CALLS:
            asked = await at.listener.until(PermissionAsked)
            await at.runtime.answer(asked.request.id, "always")
        await at.runtime.wait(at.session_id)
        yield at, caller, client


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
        async with asyncio.timeout(PROCESS_PATIENCE):
            while self.deltas < deltas:
                self._more.clear()
                await self._more.wait()

    async def until_shows(self, entries: tuple[MessageWithParts, ...]) -> None:
        """All of it, and nothing else."""
        async with asyncio.timeout(PROCESS_PATIENCE):
            while not self._shows(entries):
                self._more.clear()
                await self._more.wait()

    def _shows(self, entries: tuple[MessageWithParts, ...]) -> bool:
        messages = {entry.info.id: entry.info for entry in entries}
        return self.messages == messages and self.parts == {p.id: p for e in entries for p in e.parts}
