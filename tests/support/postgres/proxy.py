"""A network that can fail, between a test and its PostgreSQL."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from tests.support.postgres.server import Server

CHUNK = 1 << 16
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
SAY_GOODBYE = struct.pack("ii", 0, 0)


class Proxy:
    """Carries connections to the server. It must live in the loop that made it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        # Bound but never listening: keeps the port ours while connections to it are refused.
        self._reserve = _bound(0)
        self._listener: socket.socket | None = None
        self._flowing = asyncio.Event()
        self._links: set[asyncio.Task[None]] = set()
        self.heal()

    def dsn(self, database: str) -> str:
        url = urlsplit(self._server.dsn(database))
        login, at, _ = url.netloc.rpartition("@")
        return url._replace(netloc=f"{login}{at}127.0.0.1:{self._port}").geturl()

    def cut(self) -> None:
        """Resets the connections, at both ends, and refuses new ones."""
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for link in self._links:
            link.cancel()

    def freeze(self) -> None:
        """A partition: nothing arrives, nobody is told. What was sent arrives after `heal`."""
        self._flowing.clear()

    def heal(self) -> None:
        self._flowing.set()
        if self._listener is None:
            self._listener = _bound(self._port)
            self._listener.listen()
            self._loop.add_reader(self._listener, self._accept)

    async def close(self) -> None:
        self.cut()
        await asyncio.gather(*self._links, return_exceptions=True)
        self._reserve.close()

    @property
    def _port(self) -> int:
        port: int = self._reserve.getsockname()[1]
        return port

    def _accept(self) -> None:
        assert self._listener is not None
        with suppress(BlockingIOError, ConnectionAbortedError):
            client, _ = self._listener.accept()
            _make_ready(client)
            link = asyncio.create_task(self._carry(client))
            self._links.add(link)
            link.add_done_callback(self._links.discard)
            # A task that is cancelled before its first step closes nothing.
            link.add_done_callback(lambda _: client.close())

    async def _carry(self, client: socket.socket) -> None:
        with socket.socket() as upstream, suppress(OSError):
            _make_ready(upstream)
            await self._flowing.wait()
            await self._loop.sock_connect(upstream, self._server.address)
            await self._both_ways(client, upstream)

    async def _both_ways(self, client: socket.socket, upstream: socket.socket) -> None:
        """Until one end closes; the other may still be told what it was sent."""
        ways = [
            asyncio.create_task(self._pump(client, upstream)),
            asyncio.create_task(self._pump(upstream, client)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for end in (client, upstream):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, SAY_GOODBYE)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(self, source: socket.socket, target: socket.socket) -> None:
        while True:
            data = await self._loop.sock_recv(source, CHUNK)
            await self._flowing.wait()
            if not data:
                return
            await self._loop.sock_sendall(target, data)


@asynccontextmanager
async def proxy(server: Server) -> AsyncIterator[Proxy]:
    opened = Proxy(server)
    try:
        yield opened
    finally:
        await opened.close()


def _make_ready(end: socket.socket) -> None:
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setblocking(False)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind(("127.0.0.1", port))
    return bound
