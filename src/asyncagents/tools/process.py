"""The one door to processes: what an agent starts ends with it, with all that it started itself."""

import asyncio
import errno
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from copy import copy
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.config.git_settings import with_git_settings
from asyncagents.errors import ToolError
from asyncagents.tools.process_hunt import Hunt
from asyncagents.tools.process_output import Output
from asyncagents.tools.process_running import Alone, Kept, Order, Running
from asyncagents.tools.program import LIBRARIES, find_program, keep_libraries
from asyncagents.tools.threads import Threads

MARKER = "ASYNCAGENTS_PROCESS"
CAP = 30_000
CHUNK = 64 * 1024
# Once all are dead the pipe ends at once; only a process of another user could hold it longer.
LAST_WORDS = 5.0
# A namespace of its own for processes.
NAMESPACE = ("--unshare-pid", "--die-with-parent")
# All else as it is.
EVERYTHING = ("--dev-bind", "/", "/", "--proc", "/proc")

TRIAL = 10.0
UNSHARE_NETWORK = "--unshare-net"
# No name that is looked up on PATH: folders of the project may be there, and agents write in them.
NOTHING = ("/bin/sh", "-c", ":")
TRIAL_SANDBOX = ("--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
NO_SANDBOX = (
    "Nothing was run. Ask the user to install bubblewrap, or to change `sandbox`: `asyncagents doctor`."
)
LONGEST_COMPLAINT = 300
SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
SEARCHES = 2

OnOutput: TypeAlias = Callable[[str], None]
Containment: TypeAlias = Literal["namespace", "supervisor", "session"]
"""A PID namespace of bwrap; a keeper of ours, to whom all orphans come; or only a hunt by marks."""

_count = count()


class Ended(Struct, frozen=True, kw_only=True):
    exit: int
    """As a shell says it: 128 and the signal's number for one that was killed."""
    timed_out: bool
    output: str
    """All of it, or its head and tail with a note between them that names the file with the whole."""
    truncated: bool
    saved: str | None = None


class Processes:
    """Starts programs with this environment, which holds no key, and keeps long output in this folder."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        folder: Path,
        root: Path | None = None,
        namespace: bool = True,
        supervisor: bool = True,
    ) -> None:
        """`root`: of the project, where agents write: no program that holds them is looked for there."""
        self._environment = environment
        self._folder = folder
        self._root = root
        self._bwrap = find_bwrap(environment.get("PATH"), outside=root)
        self._namespace = (self._bwrap, *NAMESPACE, *EVERYTHING, "--") if namespace and self._bwrap else ()
        self._supervisor = supervisor and _has_interpreter()
        self._found: Containment | None = None
        self._sandboxed: set[bool] = set()
        self._finding = asyncio.Lock()
        self._threads = Threads()
        self.searches = asyncio.Semaphore(SEARCHES)
        """One for each search of files that runs; what is beyond waits."""

    def with_variables(self, more: Mapping[str, str]) -> "Processes":
        """The same, with an environment that has these too."""
        other = copy(self)
        other._environment = {**self._environment, **more}
        return other

    def with_git_settings(self, settings: Mapping[str, str]) -> "Processes":
        """The same, with an environment that tells git how to behave."""
        return self.with_variables(with_git_settings(self._environment, settings))

    def for_own_programs(self) -> "Processes":
        """The same, for programs of ours: they load no library of the project."""
        other = copy(self)
        other._environment = keep_libraries(self._environment, outside=self._root)
        return other

    async def containment(self) -> Containment:
        """How it is made sure here that nothing is left; tried once, not believed."""
        async with self._finding:
            if self._found is None:
                self._found = await self._find()
        return self._found

    async def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        timeout: float | None,
        on_output: OnOutput | None = None,
        cap: int = CAP,
        sandbox: Sequence[str] | None = None,
    ) -> Ended:
        """Run it to its end, or end it. However this returns or raises, nothing that it started is left.

        `sandbox`: what it may see, for bwrap; where that does not work it is not run at all.
        """
        way = await self._way(command, cwd, sandbox)
        with closing(Output(self._folder, cap)) as output:
            return await self._run(way, timeout, output, on_output)

    async def attach(self, command: Sequence[str], *, cwd: Path, ends: "Ends") -> Running:
        """Start it between pipes; whoever asked for it ends it."""
        hunt = self._hunt()
        hunt.pipe = f"pipe:[{os.fstat(ends.output).st_ino}]"
        return await self._start(replace(await self._way(command, cwd), ends=ends), ends.output, hunt)

    async def _way(self, command: Sequence[str], cwd: Path, sandbox: Sequence[str] | None = None) -> "_Way":
        if sandbox is not None:
            return await self._confined(command, cwd, sandbox)
        found = await self.containment()
        argv = (*self._namespace, *command) if found == "namespace" else tuple(command)
        return _Way(argv, cwd, supervised=found == "supervisor")

    async def _confined(self, command: Sequence[str], cwd: Path, sandbox: Sequence[str]) -> "_Way":
        failure = await self.sandbox_failure(network=UNSHARE_NETWORK not in sandbox)
        if failure:
            raise ToolError(f"This agent's commands run in a sandbox alone, and {failure}. {NO_SANDBOX}")
        libraries = self._environment.get(LIBRARIES)
        given = ("--setenv", LIBRARIES, libraries) if libraries else ()
        words = (str(self._bwrap), *NAMESPACE, *sandbox, *given, "--chdir", str(cwd), "--", *command)
        return _Way(words, cwd, is_ours=True)

    async def sandbox_failure(self, *, network: bool) -> str:
        """Say why no sandbox works here, and nothing if one does; tried until it does."""
        if self._bwrap is None:
            return "bwrap is not installed"
        async with self._finding:
            if network in self._sandboxed:
                return ""
            argv = (self._bwrap, *NAMESPACE, *TRIAL_SANDBOX, *(() if network else (UNSHARE_NETWORK,)))
            said = await self._try(_Way((*argv, "--", *NOTHING), Path("/"), is_ours=True))
            if said:
                return f"bwrap does not work here ({said})"
            self._sandboxed.add(network)
        return ""

    async def _run(
        self, way: "_Way", timeout: float | None, output: Output, on_output: OnOutput | None
    ) -> Ended:
        hunt = self._hunt()
        async with _pipe(hunt) as (reader, write):
            try:
                running = await self._start(way, write, hunt)
            finally:
                os.close(write)
            timed_out = await _watched(running, timeout, _drain(reader, output, on_output))
        if running.refused is not None:
            raise ToolError(refused(running.refused, way.cwd)) from running.refused
        return Ended(
            exit=running.exit,
            timed_out=timed_out,
            output=output.text(),
            truncated=output.truncated,
            saved=output.path,
        )

    async def _start(self, way: "_Way", write: int, hunt: Hunt) -> Running:
        name, _, value = hunt.marker.partition("=")
        environment = {**self._environment, name: value}
        if way.is_ours:
            environment = keep_libraries(environment, outside=self._root)
        order = Order(
            argv=way.argv,
            environment=environment,
            cwd=way.cwd,
            output=write,
            errors=way.ends.errors if way.ends else None,
            given=way.ends.given if way.ends else None,
        )
        try:
            return await (Kept if way.supervised else Alone).start(order, hunt)
        except (OSError, ValueError) as error:
            raise ToolError(refused(error, way.cwd)) from error

    def _hunt(self) -> Hunt:
        marker = f"{MARKER}={os.getpid()}.{asyncio.get_running_loop().time():.9f}.{next(_count)}"
        return Hunt(marker, self._threads)

    async def _find(self) -> Containment:
        if self._namespace and await self._works(_Way((*self._namespace, *NOTHING), Path("/"), is_ours=True)):
            return "namespace"
        if self._supervisor and await self._works(_Way(NOTHING, Path("/"), supervised=True)):
            return "supervisor"
        return "session"

    async def _works(self, way: "_Way") -> bool:
        return not await self._try(way)

    async def _try(self, way: "_Way") -> str:
        """Run it and say what is wrong; nothing if all is well."""
        try:
            with closing(Output(self._folder, CAP)) as output:
                ended = await self._run(way, TRIAL, output, None)
        except ToolError as error:
            return str(error)
        said = ended.output.strip()[:LONGEST_COMPLAINT] or f"exit code {ended.exit}"
        return said if ended.exit or ended.timed_out else ""


class Ends(Struct, frozen=True):
    """Of three pipes, what the program gets."""

    given: int
    output: int
    errors: int


class _Way(Struct, frozen=True):
    argv: tuple[str, ...]
    cwd: Path
    supervised: bool = False
    is_ours: bool = False
    """It is bwrap that holds the command: no library of the project is loaded before it does."""
    ends: Ends | None = None


def _has_interpreter() -> bool:
    """A program that was packed into one file is no interpreter that could run a keeper."""
    return sys.platform == "linux" and bool(sys.executable) and not getattr(sys, "frozen", False)


def find_bwrap(path: str | None, *, outside: Path | None) -> str | None:
    """Find it in the folders of the system first: what holds agents shall not be theirs to write."""
    folders = os.pathsep.join((*SYSTEM_FOLDERS, path or os.defpath))
    return find_program("bwrap", folders, outside=outside)


@asynccontextmanager
async def _pipe(hunt: Hunt) -> AsyncIterator[tuple[asyncio.StreamReader, int]]:
    """A pipe of our own: asyncio's would make the end of a process wait for all that hold it."""
    read, write = os.pipe()
    hunt.pipe = f"pipe:[{os.fstat(read).st_ino}]"
    reader = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", buffering=0)
    )
    try:
        yield reader, write
    finally:
        transport.close()


async def _drain(reader: asyncio.StreamReader, output: Output, on_output: OnOutput | None) -> None:
    data = b"?"
    while data:
        data = await reader.read(CHUNK)
        text = output.feed(data, last=not data)
        if text and on_output is not None:
            on_output(text)


async def _watched(running: Running, timeout: float | None, drain: Coroutine[None, None, None]) -> bool:
    """Whether its time ran out; it and all it started are gone afterwards, and what they said is read."""
    try:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(drain)
            timed_out = await _ended(running, timeout)
            await asyncio.wait({reading}, timeout=LAST_WORDS)
            reading.cancel()
            return timed_out
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _ended(running: Running, timeout: float | None) -> bool:
    try:
        async with asyncio.timeout(timeout):
            await running.wait()
        return False
    except TimeoutError:
        return True
    finally:
        await running.end()


def refused(error: OSError | ValueError, cwd: Path) -> str:
    if not isinstance(error, OSError):
        return "The command has a character that no program can be given, such as NUL: leave it out."
    if error.errno == errno.E2BIG:
        return "The command is too long to be started: write it to a file and run that."
    if not os.path.isdir(cwd):
        return f"There is no directory {cwd}: name one that exists."
    return f"The command could not be started: {error.strerror}."
