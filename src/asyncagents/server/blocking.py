"""Blocking file and git work for requests, in a small thread pool that no session uses."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import TypeAlias, TypeVar

from msgspec import Struct

from asyncagents.config.env import system_environment
from asyncagents.domain.bounded_dict import BoundedDict
from asyncagents.errors import InvalidInput, NotFound, RequestError, ToolError, Unavailable
from asyncagents.server.http.messages import Response
from asyncagents.tools.file.files import MissingFile
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.process.program import find_program

THREADS = 4
TIMEOUT_SECONDS = 120.0
LONGEST_SHOWN_PATH = 200
T = TypeVar("T")


class NoFile(NotFound):
    """A file that does not exist in the directory; also raised for paths outside of it."""

    def __init__(self, path: str) -> None:
        RequestError.__init__(self, f"there is no {path[:LONGEST_SHOWN_PATH]!r} in this directory")
        self.kind, self.id = "file", path


class BlockingWork:
    """Thread pool for blocking work. `data`: the server's data directory."""

    def __init__(self, data: Path | None = None) -> None:
        self.data = data
        self.seconds = TIMEOUT_SECONDS
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="errand")
        self._processes: Processes | None = None
        self._cached: dict[str, Response] = {}
        self.closing = Event()
        """Set when the server ends: long work gives up."""
        self.write_lock = asyncio.Lock()
        """Serializes changes of files."""

    def start(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Start work in a thread; it continues even if its waiter is cancelled."""
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work in a thread, with the timeout and errors of `wait_for`."""
        return await self.wait_for(self.start(work))

    async def wait_for(self, begun: Awaitable[T]) -> T:
        """Await started work. Raises `Unavailable` after 120 s, `NoFile`, or `InvalidInput`."""
        try:
            async with asyncio.timeout(self.seconds):
                return await begun
        except TimeoutError as error:
            raise Unavailable(f"files or git did not answer within {self.seconds:g} s") from error
        except MissingFile as error:
            raise NoFile(str(error).partition(" does not exist")[0]) from error
        except ToolError as error:
            raise InvalidInput(str(error)) from error

    async def run_once(self, name: str, work: Callable[[], Response]) -> Response:
        """Compute a response once and cache it until the server ends."""
        if name not in self._cached:
            self._cached[name] = await self.run(work)
        return self._cached[name]

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


def program_path(name: str, root: Path) -> str | None:
    """Return the absolute path of a program outside of the project `root`."""
    return find_program(name, os.pathsep.join(os.get_exec_path()), outside=root)


MOST_KEPT = 4
LONGEST_KEPT_SECONDS = 30.0
"""Max seconds that names are cached."""
KEPT_PER_SECOND = 20
"""Seconds that names are cached per second that the walk took."""


class FileNames(Struct, frozen=True):
    files: tuple[str, ...]
    """The last changed first."""
    folders: tuple[str, ...]


Walk: TypeAlias = Callable[[str, Event], FileNames]
"""Walks a directory; ends early when the event is set."""


class FileIndex:
    def __init__(self) -> None:
        self._cache: BoundedDict[str, tuple[float, FileNames]] = BoundedDict(MOST_KEPT)
        self._walking: dict[str, asyncio.Future[FileNames]] = {}

    async def names(self, blocking: BlockingWork, where: str, walk: Walk) -> FileNames:
        """Return cached names, or join the walk in progress; a cancelled request does not cancel the walk."""
        until, known = self._cache.get(where, (0.0, None))
        if known is not None and asyncio.get_running_loop().time() < until:
            return known
        if where not in self._walking:
            self._walking[where] = blocking.start(partial(walk, where, blocking.closing))
            began = asyncio.get_running_loop().time()
            self._walking[where].add_done_callback(partial(self._keep_result, where, began))
        return await blocking.wait_for(asyncio.shield(self._walking[where]))

    def _keep_result(self, where: str, began: float, walked: asyncio.Future[FileNames]) -> None:
        del self._walking[where]
        if walked.cancelled() or walked.exception() is not None:
            return
        now = walked.get_loop().time()
        self._cache[where] = now + min(LONGEST_KEPT_SECONDS, KEPT_PER_SECOND * (now - began)), walked.result()
