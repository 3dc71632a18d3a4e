"""Many slow ones at once against a real server: `python -m tests.support.load.slow_client --connections 500`.

Heads that come byte by byte, bodies that do, connections that say nothing, and readers that read nothing.
Somebody asks for its health all the while.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles

from msgspec import Struct

from asyncagents.server.discovery import Listing, find_server
from tests.support.process.command_line import open_desk
from tests.support.process.server import open_desk_server

GIVE_UP_SECONDS = 90.0
DRIP_SECONDS = 1.0


class Siege(Struct, frozen=True):
    closed: list[float]
    """After so many seconds each."""
    health: list[float]
    """So many seconds each took."""

    def report(self) -> str:
        p99 = quantiles(self.health, n=100)[98]
        return (
            f"{len(self.closed)} slow connections: the last one was closed after {max(self.closed):.1f} s; "
            f"health was asked {len(self.health)} times, p50 {quantiles(self.health, n=2)[0]:.4f} s, "
            f"p99 {p99:.4f} s, at most {max(self.health):.4f} s"
        )


async def besiege(listing: Listing, connections: int) -> Siege:
    health: list[float] = []
    async with asyncio.timeout(GIVE_UP_SECONDS), asyncio.TaskGroup() as group:
        kinds = (_slow_head, _slow_body, _silent, _slow_again)
        slow = [
            group.create_task(_suffer(listing, kinds[number % len(kinds)])) for number in range(connections)
        ]
        asking = group.create_task(_ask(listing, health))
        closed = [await each for each in slow]
        asking.cancel()
    return Siege(closed, health)


def _head(listing: Listing, first: str, *more: str) -> bytes:
    lines = (first, f"Host: 127.0.0.1:{listing.port}", *more)
    return "".join(f"{line}\r\n" for line in lines).encode()


def _slow_head(listing: Listing) -> tuple[bytes, bytes]:
    return _head(listing, "GET /v1/health HTTP/1.1"), b"X-A: b\r\n"


def _slow_body(listing: Listing) -> tuple[bytes, bytes]:
    bearer, kind = f"Authorization: Bearer {listing.token}", "Content-Type: application/json"
    head = _head(listing, "POST /async-tool/result HTTP/1.1", bearer, kind, "Content-Length: 1000000")
    return head + b"\r\n{", b" "


def _silent(listing: Listing) -> tuple[bytes, bytes]:
    return b"", b""


def _slow_again(listing: Listing) -> tuple[bytes, bytes]:
    """Well behaved once, then slow."""
    good = _head(listing, "HEAD /v1/health HTTP/1.1") + b"\r\n"
    return good, b"G"


async def _suffer(listing: Listing, kind: Callable[[Listing], tuple[bytes, bytes]]) -> float:
    """Seconds from its first slow byte until it is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listing.port)
    first, drip = kind(listing)
    writer.write(first)
    if kind is _slow_again:
        await reader.readuntil(b"\r\n\r\n")
    began = time.monotonic()

    async def dribble() -> None:
        while True:
            writer.write(drip)
            await asyncio.sleep(DRIP_SECONDS)

    async with asyncio.TaskGroup() as group:
        dribbling = group.create_task(dribble())
        try:
            while await reader.read(65536):
                pass
        except ConnectionError:
            pass
        dribbling.cancel()
    writer.transport.abort()
    return time.monotonic() - began


async def _ask(listing: Listing, health: list[float]) -> None:
    """On a connection of its own each time, as whoever watches a server does."""
    while True:
        began = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", listing.port)
        writer.write(_head(listing, "GET /v1/health HTTP/1.1", "Connection: close") + b"\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
        writer.transport.abort()
        health.append(time.monotonic() - began)
        await asyncio.sleep(0.01)


async def main(connections: int) -> int:
    with tempfile.TemporaryDirectory(prefix="loris") as directory:
        async with open_desk(Path(directory)) as (desk, _), open_desk_server(desk) as server:
            listing = find_server(desk.data)
            assert listing is not None
            siege = await besiege(listing, connections)
            files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
            await server.end(signal.SIGTERM)
    sys.stdout.write(f"{siege.report()}; open files of the server afterwards: {files}\n")
    return 0 if max(siege.closed) <= 15 and quantiles(siege.health, n=100)[98] <= 0.25 else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=500)
    sys.exit(asyncio.run(main(parser.parse_args().connections)))
