"""Server-sent events: writing frames, and sending them with heartbeats."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, TypeAlias

from asyncagents.server.http.messages import StreamingResponse

RETRY_MS = 3_000
"""Reconnect delay for browsers."""

Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]


def retry_frame() -> bytes:
    """Encode the frame that sets the reconnect delay; it is not an event."""
    return b"retry: %d\n\n" % RETRY_MS


def frame(event: str, data: bytes, id: str | None = None) -> bytes:
    """Encode an event; `data` is JSON without line breaks."""
    id_line = b"" if id is None else encode_id(id)
    return b"".join((b"event: ", event.encode(), b"\n", id_line, b"data: ", data, b"\n\n"))


def encode_id(id: str) -> bytes:
    """Encode the line that gives its id to the frame it is in, or to the frame that follows it."""
    return b"id: %b\n" % id.encode()


def data_frames(events: Iterable[tuple[bytes, ...]]) -> bytes:
    """Encode events that are only data, each given in chunks: bytes that streams share are copied once."""
    chunks: list[bytes] = []
    for data in events:
        chunks += (b"data: ", *data, b"\n\n")
    return b"".join(chunks)


class StreamSender:
    """Sends the frames and heartbeats of one stream to its client."""

    def __init__(self, stream: StreamingResponse, send: Send) -> None:
        self._stream = stream
        self._send = send
        self._now = asyncio.get_running_loop().time
        self._last = self._now()

    async def send_all(self) -> None:
        """Send the frames one after another; a client that does not read stalls only its own stream."""
        async with aclosing(self._stream.frames) as frames:
            async for each in frames:
                await self._write(each)

    async def send_heartbeats(self) -> None:
        """Send heartbeats forever: after each pause, or at a fixed rate if the stream says so."""
        if self._stream.heartbeat is None:
            await asyncio.Event().wait()
        stroke = self._last
        while self._stream.heartbeat is not None:
            left = (
                (stroke if self._stream.is_fixed_rate else self._last)
                + self._stream.heartbeat_seconds
                - self._now()
            )
            if left > 0:
                await asyncio.sleep(left)
            else:
                stroke = self._now()
                await self._write(self._stream.heartbeat())

    async def _write(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        self._last = self._now()
