"""Files read and programs run for a request: few at a time, in threads that no session needs."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TypeVar

from asyncagents.config.env import system_environment
from asyncagents.errors import InvalidInput, NotFound, RequestError, ToolError, Unavailable
from asyncagents.server.http import Answer
from asyncagents.tools.files import Missing
from asyncagents.tools.process import Processes
from asyncagents.tools.program import find_program

AT_ONCE = 4
SECONDS = 120.0
LONGEST = 200
T = TypeVar("T")


class NoFile(NotFound):
    """Also for one that lies elsewhere: what is beyond the directory is not told."""

    def __init__(self, path: str) -> None:
        RequestError.__init__(self, f"there is no {path[:LONGEST]!r} in this directory")
        self.kind, self.id = "file", path


class Errands:
    """`data`: where the server keeps what is its own."""

    def __init__(self, data: Path | None = None) -> None:
        self.data = data
        self.seconds = SECONDS
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="errand")
        self._processes: Processes | None = None
        self._same: dict[str, Answer] = {}
        self.closing = Event()
        """Set when the server ends: what takes long gives up."""
        self.writing = asyncio.Lock()
        """One changes files at a time."""

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """It goes on, whoever waits for it."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def run(self, work: Callable[[], T]) -> T:
        """What a file tool would tell a model is told to whoever asked."""
        return await self.told(self.begin(work))

    async def told(self, begun: Awaitable[T]) -> T:
        """A disk that does not answer keeps nobody waiting for ever."""
        try:
            async with asyncio.timeout(self.seconds):
                return await begun
        except TimeoutError as error:
            raise Unavailable(f"files or git did not answer within {self.seconds:g} s") from error
        except Missing as error:
            raise NoFile(str(error).partition(" does not exist")[0]) from error
        except ToolError as error:
            raise InvalidInput(str(error)) from error

    async def once(self, name: str, work: Callable[[], Answer]) -> Answer:
        """An answer that stays the same for as long as the server lasts."""
        if name not in self._same:
            self._same[name] = await self.run(work)
        return self._same[name]

    @property
    def processes(self) -> Processes:
        """They know where programs are, and nothing else of our environment."""
        if self._processes is None:
            environment = system_environment()
            names = ("PATH", "HOME", "LANG", "TMPDIR")
            variables = {name: environment.get(name) for name in names if environment.get(name)}
            folder = (self.data or environment.home) / "tool-output"
            self._processes = Processes(variables, folder=folder)
        return self._processes

    def close(self) -> None:
        self.closing.set()
        self._threads.shutdown(wait=False, cancel_futures=True)


def program(name: str, root: Path) -> str | None:
    """Where it is, by an absolute path: nothing of the project can stand in for it."""
    return find_program(name, os.pathsep.join(os.get_exec_path()), outside=root)
