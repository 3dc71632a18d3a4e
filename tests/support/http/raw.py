"""A server under attack: raw bytes over real sockets, and what comes back."""

import asyncio
import gc
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Self

from asyncagents import Runtime, ScriptedModel
from asyncagents.llm.scripted import Script
from asyncagents.server.discovery import Listing
from asyncagents.server.http.connection import HttpConnection
from asyncagents.server.http.timeouts import Timeouts
from asyncagents.server.serve import ServerOptions, open_server
from tests.support.http.client import Response
from tests.support.runtime import open_runtime
from tests.support.wait import PATIENCE

SHORT_TIMEOUTS = Timeouts(
    header_seconds=0.4,
    body_seconds=0.4,
    discard_seconds=0.05,
    stall_seconds=0.4,
    idle_seconds=1,
    linger_seconds=0.3,
    stop_seconds=0.6,
)


class RawConnection:
    """A connection of the attacker's."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """As much as it takes; whoever has closed takes nothing."""
        with suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def read_response(self, *, head: bool = False) -> Response:
        """The next answer."""
        async with asyncio.timeout(PATIENCE):
            try:
                raw = await self.reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return Response()
            first, *lines = raw.decode("latin-1").rstrip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            size = 0 if head else int(headers.get("content-length", "0"))
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                return Response(int(first.split(" ")[1]), headers, await self.reader.readexactly(size))
            return Response()

    async def read_until_closed(self) -> bytes:
        """All that still comes."""
        said = b""
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionError):
                while piece := await self.reader.read(65536):
                    said += piece
        return said

    async def read_until(self, text: bytes) -> bytes:
        """All that came by then."""
        said = b""
        async with asyncio.timeout(PATIENCE):
            while text not in said[-2 * 2**20 :]:
                piece = await self.reader.read(2**20)
                assert piece, said[-200:]
                said += piece
        return said

    def pause(self) -> None:
        """From here on nothing is read."""
        self.reader._transport.pause_reading()  # type: ignore[attr-defined]

    def reset(self) -> None:
        """Hang up without a word."""
        raw: socket.socket = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


class Target:
    """The server that is attacked."""

    def __init__(self, runtime: Runtime, listing: Listing) -> None:
        self.runtime = runtime
        self.listing = listing
        self.port = listing.port
        self.host = f"127.0.0.1:{listing.port}"
        self.token = listing.token or ""
        self.bearer = {"Authorization": f"Bearer {self.token}"}

    async def connect(self, address: str = "127.0.0.1", *, buffer: int = 0) -> RawConnection:
        """`buffer`: so little is taken of what nobody reads."""
        raw = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        raw.setblocking(False)
        if buffer:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        try:
            await asyncio.get_running_loop().sock_connect(raw, (address, self.port))
        except OSError:
            raw.close()
            raise
        return RawConnection(*await asyncio.open_connection(sock=raw, limit=buffer or 2**16))

    async def send_raw(self, raw: bytes, *, head: bool = False) -> Response:
        """On a connection of its own."""
        async with await self.connect() as wire:
            await wire.send(raw)
            return await wire.read_response(head=head)

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Response:
        return await self.send_raw(self.build_request(method, target, headers, body), head=method == "HEAD")

    def build_request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> bytes:
        """With a `Host` of ours, unless one is given."""
        given = {"Host": self.host, **(headers or {})}
        if body is not None and "Transfer-Encoding" not in given:
            given["Content-Length"] = given.get("Content-Length", str(len(body)))
        lines = [
            f"{method} {target} HTTP/1.1",
            *(f"{name}: {value}" for name, value in given.items()),
            "",
            "",
        ]
        return "\r\n".join(lines).encode("latin-1") + (body or b"")

    def buffered_bytes(self) -> list[int]:
        """How much the server holds for each of its connections."""
        found = [each for each in gc.get_objects() if isinstance(each, HttpConnection)]
        return [each.transport.get_write_buffer_size() for each in found if not each._is_lost]

    async def is_healthy(self) -> bool:
        return (await self.request("GET", "/v1/health")).status == 200


@asynccontextmanager
async def open_target(
    data: Path, *, timeouts: Timeouts | None = None, script: Script | None = None, **listening: Any
) -> AsyncIterator[Target]:
    """On whichever port is free. It is well after all that was done to it."""
    where = ServerOptions(port=0, timeouts=timeouts or Timeouts(), **listening)
    async with (
        open_runtime(data, model=ScriptedModel(script or {})) as runtime,
        open_server(runtime, data, where, directory=data) as listing,
    ):
        found = Target(runtime, listing)
        yield found
        assert await found.is_healthy()


def lan_address() -> str:
    """An address of this machine that others see; else one that they would."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "192.0.2.1"
        return str(probe.getsockname()[0])


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
