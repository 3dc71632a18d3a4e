"""Blocking file and git work for requests, in a small thread pool that no session uses."""

import asyncio
import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import TypeAlias, TypeVar

from msgspec import Struct

from asyncagents.config.env import system_environment
from asyncagents.errors import InvalidInput, NotFound, RequestError, ToolError, Unavailable
from asyncagents.server.http.messages import Answer
from asyncagents.tools.file.files import Missing
from asyncagents.tools.process.processes import Processes
from asyncagents.tools.process.program import find_program

AT_ONCE = 4
SECONDS = 120.0
LONGEST_SHOWN_PATH = 200
T = TypeVar("T")


class NoFile(NotFound):
    """A file that does not exist in the directory; also raised for paths outside of it."""

    def __init__(self, path: str) -> None:
        RequestError.__init__(self, f"there is no {path[:LONGEST_SHOWN_PATH]!r} in this directory")
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


MOST_KEPT = 4
LONGEST_KEPT_SECONDS = 30.0
"""Max seconds that names are cached."""
AS_LONG = 20
"""Seconds that names are cached per second that the walk took."""


class Names(Struct, frozen=True):
    files: tuple[str, ...]
    """The last changed first."""
    folders: tuple[str, ...]


Walk: TypeAlias = Callable[[str, Event], Names]
"""Walks a directory; ends early when the event is set."""


class Index:
    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[float, Names]] = OrderedDict()
        self._walking: dict[str, asyncio.Future[Names]] = {}

    async def names(self, errands: Errands, where: str, walk: Walk) -> Names:
        """Return cached names, or join the walk in progress; a cancelled request does not cancel the walk."""
        until, known = self._kept.get(where, (0.0, None))
        if known is not None and asyncio.get_running_loop().time() < until:
            return known
        if where not in self._walking:
            self._walking[where] = errands.begin(partial(walk, where, errands.closing))
            began = asyncio.get_running_loop().time()
            self._walking[where].add_done_callback(partial(self._ended, where, began))
        return await errands.told(asyncio.shield(self._walking[where]))

    def _ended(self, where: str, began: float, walked: asyncio.Future[Names]) -> None:
        del self._walking[where]
        if walked.cancelled() or walked.exception() is not None:
            return
        now = walked.get_loop().time()
        self._kept[where] = now + min(LONGEST_KEPT_SECONDS, AS_LONG * (now - began)), walked.result()
        self._kept.move_to_end(where)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
