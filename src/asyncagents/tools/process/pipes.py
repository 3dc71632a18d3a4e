"""Run a program with pipes for its stdin, stdout and stderr."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Literal, cast

from asyncagents.tools.process.child import Running
from asyncagents.tools.process.processes import CHUNK, Ends, Processes, refused

GOODBYE = 2.0
"""How long the program may take to exit after its stdin is closed."""


class Piped:
    def __init__(
        self,
        running: Running,
        writer: "Writer",
        *,
        output: asyncio.StreamReader,
        errors: asyncio.StreamReader,
        cwd: Path,
        goodbye: float = GOODBYE,
    ) -> None:
        self._running = running
        self.writer = writer
        self.output = output
        self.errors = errors
        self._cwd = cwd
        self._goodbye_seconds = goodbye

    def why(self) -> str:
        """Return why the program ended, once it has."""
        if self._running.refused is not None:
            return refused(self._running.refused, self._cwd)
        return f"It ended with exit code {self._running.exit}."

    async def ended(self) -> None:
        await self._running.wait()

    async def _goodbye(self) -> None:
        self.writer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._goodbye_seconds):
                await self._running.wait()

    async def end(self) -> None:
        """End the program and all it started; a cancel does not leave any of them running."""
        try:
            await self._goodbye()
        finally:
            await self._running.end()


class Writer(asyncio.BaseProtocol):
    """Writes to the program's stdin, and waits while the program does not read."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._free = asyncio.Event()
        self._free.set()
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A pipe's transport is a WriteTransport, though uvloop's class is not a subclass of it.
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._free.set()

    def pause_writing(self) -> None:
        self._free.clear()

    def resume_writing(self) -> None:
        self._free.set()

    async def write(self, data: bytes) -> None:
        """Write, and wait for room in the buffer. Raises `BrokenPipeError` once the pipe is closed."""
        if self._lost or self._transport is None or self._transport.is_closing():
            raise BrokenPipeError
        self._transport.write(data)
        await self._free.wait()

    def close(self) -> None:
        """Close the pipe after the buffered data is sent."""
        if self._transport is not None:
            self._transport.close()

    def drop(self) -> None:
        """Close the pipe at once and drop the buffered data."""
        if self._transport is not None and not self._lost:
            self._transport.abort()


@asynccontextmanager
async def open_piped(
    processes: Processes, command: Sequence[str], *, cwd: Path, goodbye: float = GOODBYE
) -> AsyncIterator[Piped]:
    """Run a program for the duration of the block; no process that it started is left afterwards."""
    with ExitStack() as ours:
        with ExitStack() as theirs:
            given, writing = _pipe(theirs, "read")
            reading, told = _pipe(theirs, "write")
            hearing, complained = _pipe(theirs, "write")
            writer = await _writer(writing, ours)
            output, errors = await _reader(reading, ours), await _reader(hearing, ours)
            running = await processes.attach(command, cwd=cwd, ends=Ends(given, told, complained))
        piped = Piped(running, writer, output=output, errors=errors, cwd=cwd, goodbye=goodbye)
        try:
            yield piped
        finally:
            await piped.end()


def _pipe(theirs: ExitStack, end: Literal["read", "write"]) -> tuple[int, int]:
    """Return the two ends of a new pipe; the stack closes our copy of the program's end."""
    read, write = os.pipe()
    theirs.callback(os.close, read if end == "read" else write)
    return read, write


async def _writer(end: int, ours: ExitStack) -> Writer:
    loop = asyncio.get_running_loop()
    _, writer = await loop.connect_write_pipe(Writer, os.fdopen(end, "wb", buffering=0))
    ours.callback(writer.drop)
    return writer


async def _reader(end: int, ours: ExitStack) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(end, "rb", buffering=0)
    )
    ours.callback(transport.close)
    return reader
