"""Blocking file and git work for requests, in a small thread pool that no session uses."""

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
    """A file that does not exist in the directory; also raised for paths outside of it."""

    def __init__(self, path: str) -> None:
        RequestError.__init__(self, f"there is no {path[:LONGEST]!r} in this directory")
        self.kind, self.id = "file", path


class Errands:
    """Thread pool for blocking work. `data`: the server's data directory."""

    def __init__(self, data: Path | None = None) -> None:
        self.data = data
        self.seconds = SECONDS
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="errand")
        self._processes: Processes | None = None
        self._same: dict[str, Answer] = {}
        self.closing = Event()
        """Set when the server ends: long work gives up."""
        self.writing = asyncio.Lock()
        """Serializes changes of files."""

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Start work in a thread; it continues even if its waiter is cancelled."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work in a thread, with the timeout and errors of `wait_for`."""
        return await self.told(self.begin(work))

    async def told(self, begun: Awaitable[T]) -> T:
        """Await started work. Raises `Unavailable` after 120 s, `NoFile`, or `InvalidInput`."""
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
        """Compute a response once and cache it until the server ends."""
        if name not in self._same:
            self._same[name] = await self.run(work)
        return self._same[name]

    @property
    def processes(self) -> Processes:
        """Child processes with a minimal environment: PATH, HOME, LANG and TMPDIR."""
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
    """Return the absolute path of a program outside of the project `root`."""
    return find_program(name, os.pathsep.join(os.get_exec_path()), outside=root)
