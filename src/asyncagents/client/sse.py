"""Server-sent events: parsing frames, and resuming streams after a disconnect."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.client.transport import CONNECTION_ERRORS, ApiRequest, Transport
from asyncagents.errors import AsyncAgentsError, Unavailable

MOST_BYTES = 64 * 1024 * 1024
"""Max bytes of a frame."""


class Frame(Struct, frozen=True):
    type: str
    data: bytes
    id: str | None = None


class FrameTooLong(AsyncAgentsError):
    """A frame exceeds `MOST_BYTES`: the sender is not an asyncagents server."""


async def read_frames(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Frame, None]:
    buffer, seen = bytearray(), 0
    async for chunk in chunks:
        buffer += chunk
        while (end := buffer.find(b"\n\n", seen)) >= 0:
            frame = _parse_frame(bytes(buffer[:end]))
            del buffer[: end + 2]
            seen = 0
            if frame is not None:
                yield frame
        seen = max(0, len(buffer) - 1)
        if len(buffer) > MOST_BYTES:
            raise FrameTooLong(f"a frame of the stream is longer than {MOST_BYTES} bytes")


def _parse_frame(block: bytes) -> Frame | None:
    """Parse a frame; None if it has no data, such as one with only `retry`."""
    said: dict[bytes, bytes] = {}
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        said[name] = value.removeprefix(b" ")
    if b"data" not in said:
        return None
    named = said.get(b"id")
    return Frame(said.get(b"event", b"message").decode(), said[b"data"], named.decode() if named else None)


async def follow_frames(link: Transport, question: ApiRequest) -> AsyncGenerator[Frame, None]:
    """Yield frames forever; after a disconnect, resume after the last id that was read.

    Raises the server's error, and `Unavailable` if the server is unreachable for too long.
    """
    patience = link.new_backoff()
    while True:
        error: Exception = Unavailable("the server ended the stream")
        there = False
        try:
            async with (
                link.open_stream(question) as response,
                aclosing(read_frames(response.content.iter_any())) as heard,
            ):
                async for frame in heard:
                    there = True
                    if frame.id is not None:
                        question = replace(question, query={**question.query, "after": frame.id})
                    yield frame
        except (Unavailable, *CONNECTION_ERRORS) as lost:
            error = lost
        if there:  # the connection worked until now, even if it was silent
            patience.reset()
        await patience.wait(error)
