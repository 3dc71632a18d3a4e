"""HTTP/1.1 as a client of few words speaks it: kept connections, and nothing decoded that nobody asks for."""

import asyncio
import re

from msgspec import Struct

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked\r\n", re.IGNORECASE)
_SESSION = re.compile(rb'"sessionID":"(ses_\w+)"')
EVENTS, IDLE = "/event", b'"session.idle"'


class Refused(Exception):
    """An answer that is none of 2xx."""


class Place(Struct, frozen=True):
    """Where a server listens."""

    port: int
    host: str = "127.0.0.1"

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nhost: {self.host}:{self.port}\r\n"
        if body is not None:
            head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
        return f"{head}\r\n".encode() + (body or b"")


class Unchunked:
    """The body of an answer in chunks, as its bytes come."""

    def __init__(self) -> None:
        self._buffer = b""
        self.over = False

    def feed(self, data: bytes) -> bytes:
        """What became readable by these."""
        buffer, at, found = self._buffer + data, 0, []
        while (line := buffer.find(b"\r\n", at)) >= 0:
            size = int(buffer[at:line], 16)
            end = line + 2 + size
            if len(buffer) < end + 2:
                break
            if size == 0:
                self.over = True
                break
            found.append(buffer[line + 2 : end])
            at = end + 2
        self._buffer = buffer[at:]
        return b"".join(found)


class Link(asyncio.Protocol):
    """A request at a time, on one connection for as long as the server keeps it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._buffer = b""
        self._waiting: asyncio.Future[bytes] | None = None
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError("the server hung up"))

    async def ask(self, raw: bytes) -> bytes:
        """The body of the answer."""
        loop = asyncio.get_running_loop()
        if self._transport is None or self._transport.is_closing():
            await loop.create_connection(lambda: self, self._place.host, self._place.port)
        assert self._transport is not None
        self._buffer, self._waiting = b"", loop.create_future()
        self._transport.write(raw)
        return await self._waiting

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0 or self._waiting is None or self._waiting.done():
            return
        body = _body(self._buffer[: head + 2], self._buffer[head + 4 :])
        if body is None:
            return
        if self._buffer[9:10] == b"2":
            self._waiting.set_result(body)
        else:
            self._waiting.set_exception(Refused((self._buffer[9:12] + b" " + body[:300]).decode()))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _body(head: bytes, rest: bytes) -> bytes | None:
    """None: it has not come to its end."""
    if head[9:12] == b"204":
        return b""
    if found := _LENGTH.search(head):
        return rest if len(rest) >= int(found[1]) else None
    if _CHUNKED.search(head):
        unchunked = Unchunked()
        body = unchunked.feed(rest)
        return body if unchunked.over else None
    raise Refused("an answer without a length")


class Ear(asyncio.Protocol):
    """Hears a stream of events, and reads of them only who has become idle."""

    def __init__(self, place: Place) -> None:
        self._raw = place.request("GET", EVENTS)
        self._unchunked = Unchunked()
        self._head: bytes | None = b""
        self._left = b""
        self._wanted: set[bytes] = set()
        self._done: asyncio.Future[float] | None = None
        self._transport: asyncio.WriteTransport | None = None
        self.began = asyncio.Event()
        self.events = 0
        self.bytes = 0

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]
        self._transport = transport
        transport.write(self._raw)

    def connection_lost(self, error: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionResetError("the stream of events ended"))

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += data
            head, end, data = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            if head[9:12] != b"200":
                raise Refused(f"no events: {head[:100]!r}")
            self._head = None
        self.bytes += len(data)
        *frames, self._left = (self._left + self._unchunked.feed(data)).split(b"\n\n")
        self.events += len(frames)
        if frames:
            self.began.set()
        for frame in frames:
            if IDLE in frame and (found := _SESSION.search(frame)):
                self._rests(found[1])

    def _rests(self, session: bytes) -> None:
        self._wanted.discard(session)
        if not self._wanted and self._done is not None and not self._done.done():
            self._done.set_result(asyncio.get_running_loop().time())

    def until_idle(self, sessions: list[str]) -> "asyncio.Future[float]":
        """Ask before they begin: when the last of them has become idle, by the clock of the loop."""
        self._wanted = {each.encode() for each in sessions}
        self._done = asyncio.get_running_loop().create_future()
        return self._done

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def listen(place: Place) -> Ear:
    """Returns once the stream has begun: nothing that happens from here on is missed."""
    _, ear = await asyncio.get_running_loop().create_connection(lambda: Ear(place), place.host, place.port)
    await asyncio.wait_for(ear.began.wait(), 30)
    return ear
