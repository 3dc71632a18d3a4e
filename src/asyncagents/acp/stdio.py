"""Serve the protocol on standard input and output."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

from asyncagents.acp.agent import AcpAgent
from asyncagents.acp.server_link import ServerConnector, ServerLink
from asyncagents.domain.id import Ids
from asyncagents.remote.json_rpc import JsonRpcConnection, LineReader

CHUNK_BYTES = 65_536
WRITE_LIMIT = 4 * 1024 * 1024
"""Bytes that wait for a slow client before its updates wait as well."""


async def serve_stdio(
    connector: ServerConnector, ids: Ids, wait_for_stop: Callable[[], Awaitable[None]]
) -> None:
    """Serve one client until it closes our standard input, or until `wait_for_stop` returns."""
    read, write, close_input = await _open_streams()

    async def close_on_stop() -> None:
        await wait_for_stop()
        close_input()

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(close_on_stop())
            agent = AcpAgent(ServerLink(connector), ids, group=group)
            connection = JsonRpcConnection(LineReader(read), write, agent, group=group)
            agent.attach(connection)
            await connection.run()
            agent.close()
            raise _ConnectionEnd
    except* (_ConnectionEnd, BrokenPipeError, ConnectionResetError):
        pass  # the client is gone: what it began goes on in the server


class _ConnectionEnd(Exception):
    """Ends the tasks of a connection that was closed."""


async def _open_streams() -> tuple[
    Callable[[], Awaitable[bytes]], Callable[[bytes], Awaitable[None]], Callable[[], None]
]:
    """Take over stdin and stdout; what else is printed goes to stderr, so that no frame is broken."""
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
