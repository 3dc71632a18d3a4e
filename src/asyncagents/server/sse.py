"""Server-sent events: how a frame is written, and how frames leave, with a sign of life in a silence."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeAlias

from asyncagents.server.http import Stream

RETRY_MS = 3_000
"""So long a browser waits before it comes again."""

Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]


def opening() -> bytes:
    """Before the first event: it is no event itself."""
    return b"retry: %d\n\n" % RETRY_MS


def frame(event: str, data: bytes, id: str | None = None) -> bytes:
    """`data`: JSON, which has no line ends of its own."""
    head = f"event: {event}\n" if id is None else f"event: {event}\nid: {id}\n"
    return b"%sdata: %s\n\n" % (head.encode(), data)


class Sender:
    """Brings the frames of one stream to its listener."""

    def __init__(self, stream: Stream, send: Send) -> None:
        self._stream = stream
        self._send = send
        self._now = asyncio.get_running_loop().time
        self._last = self._now()

    async def send_all(self) -> None:
        """Each when the one before it could be written: who does not read stops his own stream."""
        async with aclosing(self._stream.frames) as frames:
            async for each in frames:
                await self._write(each)

    async def beat(self) -> None:
        """For as long as it lasts, a frame after each silence, or at each stroke."""
        if self._stream.beat is None:
            await asyncio.Event().wait()
        stroke = self._last
        while self._stream.beat is not None:
            left = (stroke if self._stream.steady else self._last) + self._stream.silence - self._now()
            if left > 0:
                await asyncio.sleep(left)
            else:
                stroke = self._now()
                await self._write(self._stream.beat())

    async def _write(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        self._last = self._now()
