"""A server at a desk: `asyncagents serve` in a process of its own, and where it listens."""

import asyncio
import os
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.process.command_line import PROCESS_PATIENCE, Desk, read_until


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
