"""Standard input and output as a connection to the program that started this one."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

CHUNK_BYTES = 65_536
WRITE_LIMIT = 4 * 1024 * 1024
"""Bytes that wait for a slow client before its updates wait as well."""


async def open_stdio() -> tuple[
    Callable[[], Awaitable[bytes]], Callable[[bytes], Awaitable[None]], Callable[[], None]
]:
    """Take over stdin and stdout; what else is printed goes to stderr, so that no frame is broken.

    Returns a function that reads, one that writes, and one that closes stdin.
    """
    loop = asyncio.get_running_loop()
    frames = os.dup(sys.stdout.fileno())
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    if sys.stderr is not None:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    else:  # the client has closed it
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    reader = asyncio.StreamReader()
    source, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(frames, "wb", buffering=0)
    )
    transport.set_write_buffer_limits(high=WRITE_LIMIT)
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def read() -> bytes:
        return await reader.read(CHUNK_BYTES)

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    return read, write, source.close
