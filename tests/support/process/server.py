"""Real processes of `asyncagents serve`, and ports that are taken."""

import asyncio
import os
import signal
import socket
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from asyncagents.server.discovery import LISTING_FILE, Listing
from tests.support.http.client import HttpClient, open_http_client
from tests.support.process.command_line import NO_VARIABLES, PROCESS_PATIENCE, Desk, read_until, wait_for_exit

TRIES = 10


@contextmanager
def hold_ports(count: int, *, of: int = TRIES) -> Iterator[int]:
    """So many ports in a row that somebody listens at, the first of `of` that were free; says the first."""
    for first in range(21_000, 32_000, of):
        with ExitStack() as held:
            try:
                bound = [_listen(held, port) for port in range(first, first + of)]
            except OSError:
                continue
            for each in bound[count:]:
                each.close()
            yield first
            return
    raise AssertionError("no ports are free")


def _listen(held: ExitStack, port: int) -> socket.socket:
    bound = held.enter_context(socket.socket())
    bound.bind(("127.0.0.1", port))
    bound.listen()
    return bound


def listening_addresses(port: int) -> list[str]:
    """The addresses where somebody listens at this port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    found = [row[1].split(":") for row in rows if row[3] == "0A"]
    return [socket.inet_ntoa(bytes.fromhex(host)[::-1]) for host, at in found if int(at, 16) == port]


async def accepts_connections(port: int) -> bool:
    """Whether anybody takes a connection there."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:  # reset: it was just being closed
        return False
    writer.close()
    return True


@asynccontextmanager
async def open_stalled_request(port: int, path: str) -> AsyncIterator[asyncio.StreamReader]:
    """Somebody who asks, sees that an answer begins, and does not read on."""
    with socket.socket() as narrow:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=narrow, limit=1024)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        assert b"200" in await reader.readline()
        yield reader
        writer.close()


def read_listing(data: Path) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((data / LISTING_FILE).read_bytes())
    return found


class ServerProcess:
    """One process, and who asks it."""

    def __init__(self, process: Process, data: Path, caller: HttpClient) -> None:
        self.process = process
        self.data = data
        self.client = caller
        self.listing = caller.listing

    async def stop(self, how: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(how)
        return await self.end()

    async def end(self) -> int:
        return (await wait_for_exit(self.process)).code


@asynccontextmanager
async def open_server_process(
    desk: Desk, *words: str, env: Mapping[str, str] = NO_VARIABLES, limit: Callable[[], None] | None = None
) -> AsyncIterator[ServerProcess]:
    """Until the block ends; then whatever is left of it is killed."""
    process = await desk.start("serve", *words, env=env, limit=limit)
    try:
        await read_until(process, "listening at ")
        listing = msgspec.json.decode((desk.data / LISTING_FILE).read_bytes(), type=Listing)
        async with open_http_client(listing) as caller:
            yield ServerProcess(process, desk.data, caller)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


class DeskServer:
    def __init__(self, process: Process, url: str) -> None:
        self.process = process
        self.url = url

    async def end(self, number: int = signal.SIGTERM) -> str:
        """With a signal; returns what it had to say on stderr."""
        self.process.send_signal(number)
        async with asyncio.timeout(PROCESS_PATIENCE):
            _, err = await self.process.communicate()
        return err.decode()


@asynccontextmanager
async def open_desk_server(desk: Desk, *words: str, port: int = 0) -> AsyncIterator[DeskServer]:
    process = await desk.start("serve", "--port", str(port), *words)
    try:
        told = await read_until(process, "\n")
        yield DeskServer(process, told.removeprefix("listening at ").strip())
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
            await process.communicate()
