"""Run a program with pipes for its stdin, stdout and stderr."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Literal, cast

from asyncagents.tools.process.child import ChildProcess
from asyncagents.tools.process.processes import CHUNK_BYTES, PipeEnds, Processes, start_error_text

EXIT_SECONDS = 2.0
"""How long the program may take to exit after its stdin is closed."""


class PipedProcess:
    def __init__(
        self,
        process: ChildProcess,
        writer: "PipeWriter",
        *,
        output: asyncio.StreamReader,
        errors: asyncio.StreamReader,
        cwd: Path,
        goodbye: float = EXIT_SECONDS,
    ) -> None:
        self._child = process
        self.writer = writer
        self.output = output
        self.errors = errors
        self._cwd = cwd
        self._exit_seconds = goodbye

    def exit_reason(self) -> str:
        """Return why the program ended, once it has."""
        if self._child.start_error is not None:
            return start_error_text(self._child.start_error, self._cwd)
        return f"It ended with exit code {self._child.exit_code}."

    async def wait(self) -> None:
        await self._child.wait()

    async def _close_input(self) -> None:
        self.writer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._exit_seconds):
                await self._child.wait()

    async def end(self) -> None:
        """End the program and all it started; a cancel does not leave any of them running."""
        try:
            await self._close_input()
        finally:
            await self._child.end()


class PipeWriter(asyncio.BaseProtocol):
    """Writes to the program's stdin, and waits while the program does not read."""

    def __init__(self) -> None:
        self._transport: asyncio.WriteTransport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A pipe's transport is a WriteTransport, though uvloop's class is not a subclass of it.
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def write(self, data: bytes) -> None:
        """Write, and wait for room in the buffer. Raises `BrokenPipeError` once the pipe is closed."""
        if self._is_lost or self._transport is None or self._transport.is_closing():
            raise BrokenPipeError
        self._transport.write(data)
        await self._writable.wait()

    def close(self) -> None:
        """Close the pipe after the buffered data is sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the pipe at once and drop the buffered data."""
        if self._transport is not None and not self._is_lost:
            self._transport.abort()


@asynccontextmanager
async def open_piped_process(
    processes: Processes,
    command: Sequence[str],
    *,
    cwd: Path,
    goodbye: float = EXIT_SECONDS,
    sandbox: Sequence[str] | None = None,
) -> AsyncIterator[PipedProcess]:
    """Run a program for the duration of the block; no process that it started is left afterwards.

    `sandbox`: options for bwrap. Raises `ToolError`, and runs nothing, if no sandbox works here.
    """
    with ExitStack() as ours:
        with ExitStack() as theirs:
            given, writing = _open_pipe(theirs, "read")
            reading, stdout = _open_pipe(theirs, "write")
            hearing, complained = _open_pipe(theirs, "write")
            writer = await _open_writer(writing, ours)
            output, errors = await _open_reader(reading, ours), await _open_reader(hearing, ours)
            ends = PipeEnds(given, stdout, complained)
            process = await processes.start_piped(command, cwd=cwd, ends=ends, sandbox=sandbox)
        piped = PipedProcess(process, writer, output=output, errors=errors, cwd=cwd, goodbye=goodbye)
        try:
            yield piped
        finally:
            await piped.end()


def _open_pipe(theirs: ExitStack, end: Literal["read", "write"]) -> tuple[int, int]:
    """Return the two ends of a new pipe; the stack closes our copy of the program's end."""
    read, write = os.pipe()
    theirs.callback(os.close, read if end == "read" else write)
    return read, write


async def _open_writer(end: int, ours: ExitStack) -> PipeWriter:
    loop = asyncio.get_running_loop()
    _, writer = await loop.connect_write_pipe(PipeWriter, os.fdopen(end, "wb", buffering=0))
    ours.callback(writer.abort)
    return writer


async def _open_reader(end: int, ours: ExitStack) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(end, "rb", buffering=0)
    )
    ours.callback(transport.close)
    return reader
