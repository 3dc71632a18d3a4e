"""The program of an external agent: its pipes, its last words, and how it is started in a project."""

import asyncio
import codecs
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol, runtime_checkable

from asyncagents.engine.external.agent import ExternalStep
from asyncagents.engine.tool import Ask
from asyncagents.remote.acp.calls import MergedCall, call_asks
from asyncagents.tools.mcp.connection import LogTail
from asyncagents.tools.process.pipes import PipedProcess, open_piped_process
from asyncagents.tools.process.processes import CHUNK_BYTES
from asyncagents.tools.project.agent_launch import AgentLaunch

EXIT_SECONDS = 1.0
"""How long to wait for the exit of a program whose output has ended."""
SHOWN_LINES = 5


@runtime_checkable
class HasPrograms(Protocol):
    """Workplaces that can start programs of external agents."""

    def agent_launch(self, step: ExternalStep) -> AgentLaunch:
        """Return how the program of a step is started."""
        ...


class PipedProgram:
    """Implements `AgentProgram` with the pipes of a process."""

    def __init__(self, piped: PipedProcess, tail: LogTail) -> None:
        self._piped = piped
        self._tail = tail
        self._closed = False

    async def read(self) -> bytes:
        data = await self._piped.output.read(CHUNK_BYTES)
        self._closed = not data
        return data

    async def write(self, data: bytes) -> None:
        with suppress(OSError):  # the end of its output says that it is gone
            await self._piped.writer.write(data)

    async def end_text(self) -> str:
        why = "It closed its output." if self._closed else "It still runs."
        with suppress(TimeoutError):
            async with asyncio.timeout(EXIT_SECONDS):
                await self._piped.wait()
                why = self._piped.exit_reason()
        lines = self._tail.lines[-SHOWN_LINES:]
        return f"{why} Its last lines: {' | '.join(lines)}" if lines else why

    def redact(self, text: str) -> str:
        return self._tail.redact(text)

    async def read_errors(self) -> None:
        """Keep the last lines of its stderr; a full pipe would stop the program."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while data := await self._piped.errors.read(CHUNK_BYTES):
            self._tail.feed(decoder.decode(data))


@asynccontextmanager
async def open_program(launch: AgentLaunch, group: asyncio.TaskGroup) -> AsyncIterator[PipedProgram]:
    """Start a program; it ends with all that it started. Raises `ToolError` if it cannot start."""
    async with open_piped_process(
        launch.processes, launch.command, cwd=launch.cwd, sandbox=launch.sandbox
    ) as piped:
        program = PipedProgram(piped, LogTail(launch.secrets))
        reading = group.create_task(program.read_errors())
        try:
            yield program
        finally:
            reading.cancel()
            await asyncio.wait([reading])


async def find_project_asks(launch: AgentLaunch, step: ExternalStep, call: MergedCall) -> tuple[Ask, ...]:
    """Return what a call needs a permission for, by the files of the project."""
    return await asyncio.to_thread(
        call_asks,
        call,
        agent=step.agent,
        directory=step.directory,
        worktree=str(launch.root),
        home=launch.home,
    )
