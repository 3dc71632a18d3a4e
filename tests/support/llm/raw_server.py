"""A server that plays one stream of events to whoever asks: for wires that the local provider lacks."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Struct

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


class RawRequest(Struct, frozen=True):
    path: str
    headers: dict[str, str]
    body: Any


class RawServer:
    """It reads HTTP by itself: some clients say a header twice, which a proper server refuses."""

    def __init__(self, events: Sequence[Any]) -> None:
        self.url = ""
        self.requests: list[RawRequest] = []
        self._events = events

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *rest = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (row.partition(":") for row in rest)}
        body = msgspec.json.decode(await reader.readexactly(int(headers["content-length"])))
        self.requests.append(RawRequest(line.split()[1], headers, body))
        events = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in self._events)
        writer.write(HEAD + events)
        await writer.drain()
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def open_raw_server(events: Sequence[Any]) -> AsyncIterator[RawServer]:
    raw = RawServer(events)
    server = await asyncio.start_server(raw.answer, "127.0.0.1", 0)
    async with server:
        raw.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield raw
