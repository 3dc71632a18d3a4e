"""A connection of `remote/json_rpc.py` in memory, with the other side of it written by hand."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from msgspec import Raw

from asyncagents.errors import AsyncAgentsError
from asyncagents.remote.json_rpc import (
    MAX_FRAME_BYTES,
    Handler,
    JsonRpcConnection,
    LineReader,
    no_such_method,
)
from tests.support.wait import PATIENCE

Frame = dict[str, Any]


class PlainHandler:
    """Answers a few methods and writes down what it got, in the order in which it got it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.seen = asyncio.Event()
        self.released = asyncio.Event()

    def note(self, event: str) -> None:
        self.events.append(event)
        self.seen.set()

    async def handle_request(self, method: str, params: Raw) -> Any:
        self.note(f"request {method} {text_of(params)}")
        match method:
            case "echo":
                return params
            case "hold":
                await self._hold(text_of(params))
                return params
            case "stubborn":
                return await self._answer_a_cancel()
            case "lost":
                raise asyncio.CancelledError
            case "surrogate":
                return "\ud800"
            case "fail":
                raise ValueError(text_of(params))
            case _:
                raise no_such_method(method)

    async def handle_notification(self, method: str, params: Raw) -> None:
        self.note(f"notification {method} {text_of(params)}")
        if method == "slow":
            await self.released.wait()
        if method == "fail":
            raise ValueError(method)
        self.note(f"end of {method}")

    async def _hold(self, name: str) -> None:
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            self.note(f"cancelled {name}")
            raise

    async def _answer_a_cancel(self) -> str:
        try:
            await self.released.wait()
        except asyncio.CancelledError:
            return "stopped"
        return "released"


class OtherSide:
    """What the other side of a connection does: writes bytes, reads frames, closes."""

    def __init__(self) -> None:
        self._to_us: asyncio.Queue[bytes] = asyncio.Queue()
        self._from_us: asyncio.Queue[Frame] = asyncio.Queue()
        self.broken = False
        self.reads = asyncio.Event()
        self.reads.set()

    def send(self, *frames: Mapping[str, Any]) -> None:
        """All in one piece, as a pipe would hand them over."""
        self.send_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in frames))

    def send_bytes(self, piece: bytes) -> None:
        self._to_us.put_nowait(piece)

    def close(self) -> None:
        self._to_us.put_nowait(b"")

    async def read(self) -> bytes:
        return await self._to_us.get()

    async def write(self, line: bytes) -> None:
        """Take a line, then wait as long as nothing is read: what `drain` of a pipe does."""
        if self.broken:
            raise BrokenPipeError
        assert line.endswith(b"\n"), line
        assert line.count(b"\n") == 1, line
        self._from_us.put_nowait(msgspec.json.decode(line))
        await self.reads.wait()

    async def next_frame(self) -> Frame:
        async with asyncio.timeout(PATIENCE):
            return await self._from_us.get()

    async def next_error(self) -> tuple[Any, int]:
        """Id and code of the next frame, which is an error."""
        frame = await self.next_frame()
        assert isinstance(frame["error"]["message"], str)
        return frame["id"], frame["error"]["code"]

    def frames_left(self) -> list[Frame]:
        return [self._from_us.get_nowait() for _ in range(self._from_us.qsize())]


async def outcome(request: Awaitable[Raw]) -> str | AsyncAgentsError:
    """The text of a result, or the error instead of it."""
    try:
        return text_of(await request)
    except AsyncAgentsError as error:
        return error


def text_of(params: Raw) -> str:
    return bytes(params).decode()


def call(request_id: Any, method: str, params: Any = None) -> Frame:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, params: Any = None) -> Frame:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def answer(request_id: Any, result: Any = None) -> Frame:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


@asynccontextmanager
async def open_wire(
    handler: Handler, *, max_bytes: int = MAX_FRAME_BYTES
) -> AsyncIterator[tuple[JsonRpcConnection, OtherSide]]:
    """Run a connection until the block ends; then close it, and wait until all its tasks have ended."""
    other = OtherSide()
    async with asyncio.timeout(2 * PATIENCE), asyncio.TaskGroup() as group:
        reader = LineReader(other.read, max_bytes)
        connection = JsonRpcConnection(reader, other.write, handler, group=group)
        group.create_task(connection.run())
        yield connection, other
        other.close()
