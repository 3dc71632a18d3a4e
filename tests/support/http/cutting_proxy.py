"""Something between a client and its server that holds requests or cuts connections when it is told to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class CuttingProxy:
    """`cut` is asked for each piece that the server sends: True ends the connection before it arrives.

    `hold` is asked for each piece that the client sends: True keeps it until `go` is set.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self.cut: Callable[[bytes, bytes], bool] = lambda asked, said: False
        self.cuts = 0
        self.hold: Callable[[bytes], bool] = lambda asked: False
        self.holding, self.go = asyncio.Event(), asyncio.Event()
        self.url = ""

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, self._port)
        asked = bytearray()
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._up(reader, back, asked)),
                    group.create_task(self._down(there, writer, asked)),
                ]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
        finally:
            for each in (back, writer):
                each.transport.abort()
                with suppress(ConnectionError):
                    await each.wait_closed()

    async def _up(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, asked: bytearray) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                asked[:] = piece if piece.startswith((b"GET ", b"POST ", b"DELETE ")) else asked + piece
                if self.hold(bytes(asked)):
                    self.holding.set()
                    await self.go.wait()
                to.write(piece)
                await to.drain()

    async def _down(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter, asked: bytearray) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                if self.cut(bytes(asked), piece):
                    self.cuts += 1
                    return
                to.write(piece)
                await to.drain()


@asynccontextmanager
async def open_cutting_proxy(url: str) -> AsyncIterator[CuttingProxy]:
    cutter = CuttingProxy(url)
    server = await asyncio.start_server(cutter.carry, "127.0.0.1", 0)
    async with server:
        cutter.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield cutter
        server.close()
