"""Run programs for agents, and end each with all processes that it started."""

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
from asyncagents.tools.file.thread_pool import Threads
from asyncagents.tools.output.capture import Output
from asyncagents.tools.process.child import Alone, Kept, Order, Running
from asyncagents.tools.process.program import LIBRARIES, find_program, keep_libraries
from asyncagents.tools.process.reaper import Hunt

MARKER = "ASYNCAGENTS_PROCESS"
CAP = 30_000
CHUNK = 64 * 1024
# Once all processes are dead the pipe ends at once; only a process of another user could hold it longer.
LAST_WORDS = 5.0
# A separate PID namespace.
NAMESPACE = ("--unshare-pid", "--die-with-parent")
# Everything else as on the host.
EVERYTHING = ("--dev-bind", "/", "/", "--proc", "/proc")

TRIAL = 10.0
UNSHARE_NETWORK = "--unshare-net"
# A full path: PATH may have folders of the project, where agents write.
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
"""What ends descendants: bwrap's PID namespace, our supervisor (a subreaper), or the reaper alone."""

_count = count()


class Ended(Struct, frozen=True, kw_only=True):
    exit: int
    """The exit code as a shell reports it: 128 plus the signal number for a killed process."""
    timed_out: bool
    output: str
    """The whole output, or its head and tail with a note between them that names the file with the whole."""
    truncated: bool
    saved: str | None = None


class Processes:
    """Starts programs with an environment without our keys, and writes long output to files in a folder."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        folder: Path,
        root: Path | None = None,
        namespace: bool = True,
        supervisor: bool = True,
    ) -> None:
        """`root`: of the project, where agents write: programs of ours are not taken from there."""
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
        """Limits how many searches of files run at once."""

    def with_variables(self, more: Mapping[str, str]) -> "Processes":
        """Return a copy whose environment has these variables, too."""
        other = copy(self)
        other._environment = {**self._environment, **more}
        return other

    def with_git_settings(self, settings: Mapping[str, str]) -> "Processes":
        """Return a copy whose environment has these git settings, too."""
        return self.with_variables(with_git_settings(self._environment, settings))

    def for_own_programs(self) -> "Processes":
        """Return a copy for programs of ours, which load no library from the project."""
        other = copy(self)
        other._environment = keep_libraries(self._environment, outside=self._root)
        return other

    async def containment(self) -> Containment:
        """Return the strongest containment that works here; each is tried out once."""
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
        """Run a command until it ends or its timeout. When this returns or raises, no process of it is left.

        `sandbox`: options for bwrap. Raises `ToolError`, and runs nothing, if no sandbox works here.
        """
        way = await self._way(command, cwd, sandbox)
        with closing(Output(self._folder, cap)) as output:
            return await self._run(way, timeout, output, on_output)

    async def attach(self, command: Sequence[str], *, cwd: Path, ends: "Ends") -> Running:
        """Start a command with pipes; the caller must end it."""
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
        """Return why no sandbox works here; an empty string if one does. Tried again until it works."""
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
        """Run a trial command; return what is wrong, or an empty string."""
        try:
            with closing(Output(self._folder, CAP)) as output:
                ended = await self._run(way, TRIAL, output, None)
        except ToolError as error:
            return str(error)
        said = ended.output.strip()[:LONGEST_COMPLAINT] or f"exit code {ended.exit}"
        return said if ended.exit or ended.timed_out else ""


class Ends(Struct, frozen=True):
    """The program's ends of its three pipes: its stdin, stdout and stderr."""

    given: int
    output: int
    errors: int


class _Way(Struct, frozen=True):
    argv: tuple[str, ...]
    cwd: Path
    supervised: bool = False
    is_ours: bool = False
    """Whether the command is started by bwrap, which must load no library from the project."""
    ends: Ends | None = None


def _has_interpreter() -> bool:
    """Return whether `sys.executable` can run the supervisor; a frozen program cannot."""
    return sys.platform == "linux" and bool(sys.executable) and not getattr(sys, "frozen", False)


def find_bwrap(path: str | None, *, outside: Path | None) -> str | None:
    """Find bwrap, first in the folders of the system, where agents cannot write."""
    folders = os.pathsep.join((*SYSTEM_FOLDERS, path or os.defpath))
    return find_program("bwrap", folders, outside=outside)


@asynccontextmanager
async def _pipe(hunt: Hunt) -> AsyncIterator[tuple[asyncio.StreamReader, int]]:
    """Open a pipe; with asyncio's own, waiting for a process would wait for all that hold the pipe."""
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
    """Wait for the child, end it with all it started, and read the output. Return whether it timed out."""
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
