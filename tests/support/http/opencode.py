"""One who listens as OpenCode's clients do: nothing but `data:`, and a state put together from it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import ClientResponse, ClientSession, ClientTimeout

from asyncagents.llm.scripted import say
from asyncagents.server.discovery import Listing
from tests.support.wait import PATIENCE

HEARTBEAT = "server.heartbeat"


class OpencodeStream:
    def __init__(self, response: ClientResponse) -> None:
        self.headers = response.headers
        self._response = response
        self.raw: list[bytes] = []
        self.events: list[dict[str, Any]] = []
        """All but heartbeats, as they came."""

    async def next(self) -> dict[str, Any] | None:
        """None: the stream has ended, between two frames."""
        while True:
            frame = b""
            while not frame.endswith(b"\n\n"):
                line = await self._response.content.readline()
                if not line:
                    assert not frame, "it was cut off within a frame"
                    return None
                frame += line
            self.raw.append(frame)
            assert frame.startswith(b"data: {"), frame
            assert frame.count(b"\n") == 2, frame
            event: dict[str, Any] = json.loads(frame[6:])
            if event.get("payload", event)["type"] != HEARTBEAT:
                self.events.append(event)
                return event

    async def until(
        self, type: str, where: Callable[[dict[str, Any]], bool] = lambda properties: True
    ) -> dict[str, Any]:
        """The properties of the next of this type."""
        async with asyncio.timeout(PATIENCE):
            while (event := await self.next()) is not None:
                told = event.get("payload", event)
                if told["type"] == type and where(told["properties"]):
                    properties: dict[str, Any] = told["properties"]
                    return properties
        raise AssertionError(f"it ended after {self.types}")

    async def until_end(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self.next() is not None:
                pass

    @property
    def types(self) -> list[str]:
        return [event.get("payload", event)["type"] for event in self.events]

    def sessions(self) -> set[str]:
        told = [event.get("payload", event)["properties"] for event in self.events]
        return {properties["sessionID"] for properties in told if "sessionID" in properties}


@asynccontextmanager
async def open_opencode_stream(
    listing: Listing, path: str = "/event", **more: Any
) -> AsyncIterator[OpencodeStream]:
    """From the moment that it is connected."""
    headers = {"authorization": f"Bearer {listing.token}", **more.pop("headers", {})}
    timeout = ClientTimeout(total=None, sock_read=PATIENCE)
    async with (
        ClientSession(timeout=timeout, read_bufsize=2**24) as http,
        http.get(f"{listing.url}{path}", headers=headers, **more) as response,
    ):
        assert response.status == 200, await response.text()
        hearer = OpencodeStream(response)
        await hearer.until("server.connected")
        assert len(hearer.events) == 1, "it comes first"
        yield hearer


class OpencodeMirror:
    """What a client knows of sessions: what it read once, and what it heard since."""

    def __init__(self) -> None:
        self.sessions: dict[str, Any] = {}
        self.messages: dict[str, Any] = {}
        self.parts: dict[str, Any] = {}
        self.statuses: dict[str, Any] = {}

    def read(self, session: dict[str, Any], entries: list[dict[str, Any]]) -> None:
        """All of a session, whatever was known of it."""
        session_id = session["id"]
        self.forget(session_id)
        self.sessions[session_id] = session
        for entry in entries:
            self.messages[entry["info"]["id"]] = entry["info"]
            for part in entry["parts"]:
                self.parts[part["id"]] = part

    def forget(self, session_id: str) -> None:
        self.sessions.pop(session_id, None)
        for kept in (self.messages, self.parts):
            for gone in [known for known, each in kept.items() if each["sessionID"] == session_id]:
                del kept[gone]

    def apply(self, event: dict[str, Any]) -> None:
        event = event.get("payload", event)
        told = event["properties"]
        match event["type"]:
            case "session.created" | "session.updated":
                self.sessions[told["sessionID"]] = told["info"]
            case "session.status":
                self.statuses[told["sessionID"]] = told["status"]
            case "message.updated":
                self.messages[told["info"]["id"]] = told["info"]
            case "message.part.updated":
                self.parts[told["part"]["id"]] = told["part"]
            case "message.part.delta":
                self._append(told)
            case _:
                self._take_out(event["type"], told)

    def _take_out(self, type: str, told: dict[str, Any]) -> None:
        match type:
            case "session.deleted":
                self.forget(told["sessionID"])
            case "message.removed":
                self._remove(told["messageID"])
            case "message.part.removed":
                self.parts.pop(told["partID"], None)
            case _:
                pass

    def _remove(self, message_id: str) -> None:
        self.messages.pop(message_id, None)
        for gone in [known for known, part in self.parts.items() if part["messageID"] == message_id]:
            del self.parts[gone]

    def _append(self, told: dict[str, Any]) -> None:
        """To a text that is not known yet nothing is added: it is read, or told, as a whole."""
        part = self.parts.get(told["partID"])
        if part is not None:
            text = part[told["field"]] + told["delta"]
            self.parts[told["partID"]] = {**part, told["field"]: text}


def text_prompt(*words: str) -> dict[str, Any]:
    return {"parts": [{"type": "text", "text": word} for word in words]}


def entry_text(entry: dict[str, Any]) -> str:
    return "".join(part["text"] for part in entry["parts"] if part["type"] == "text")


HELLO = {"hi": [[say("Hel", "lo.")]], "again": [[say("Again.")]]}


def tool_outputs(messages: list[Any]) -> list[str]:
    parts = [part for entry in messages for part in entry["parts"] if part["type"] == "tool"]
    return [part["state"].get("output") or part["state"].get("error", "") for part in parts]
