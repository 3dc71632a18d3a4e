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
from asyncagents.tools.output.capture import OutputCapture
from asyncagents.tools.process.child import ChildProcess, ChildSpec, PlainChild, SupervisedChild
from asyncagents.tools.process.program import LIBRARY_PATH, drop_project_libraries, find_program
from asyncagents.tools.process.reaper import Reaper

MARKER = "ASYNCAGENTS_PROCESS"
MOST_OUTPUT = 30_000
CHUNK_BYTES = 64 * 1024
# Once all processes are dead the pipe ends at once; only a process of another user could hold it longer.
DRAIN_SECONDS = 5.0
# A separate PID namespace.
NAMESPACE_OPTIONS = ("--unshare-pid", "--die-with-parent")
# Everything else as on the host.
BIND_ALL_OPTIONS = ("--dev-bind", "/", "/", "--proc", "/proc")

TRIAL_SECONDS = 10.0
UNSHARE_NETWORK = "--unshare-net"
# A full path: PATH may have folders of the project, where agents write.
NOOP_COMMAND = ("/bin/sh", "-c", ":")
TRIAL_SANDBOX_OPTIONS = ("--unshare-ipc", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
NO_SANDBOX_ADVICE = (
    "Nothing was run. Ask the user to install bubblewrap, or to change `sandbox`: `asyncagents doctor`."
)
MOST_ERROR_TEXT = 300
SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
MOST_SEARCHES = 2

OnOutput: TypeAlias = Callable[[str], None]
Containment: TypeAlias = Literal["namespace", "supervisor", "session"]
"""What ends descendants: bwrap's PID namespace, our supervisor (a subreaper), or the reaper alone."""

_count = count()


class ProcessResult(Struct, frozen=True, kw_only=True):
    exit_code: int
    """The exit code as a shell reports it: 128 plus the signal number for a killed process."""
    timed_out: bool
    output: str
    """The whole output, or its head and tail with a note between them that names the file with the whole."""
    truncated: bool
    spill_path: str | None = None


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
        self._namespace = (
            (self._bwrap, *NAMESPACE_OPTIONS, *BIND_ALL_OPTIONS, "--") if namespace and self._bwrap else ()
        )
        self._supervisor = supervisor and _has_interpreter()
        self._containment: Containment | None = None
        self._working_sandboxes: set[bool] = set()
        self._detection_lock = asyncio.Lock()
        self._threads = Threads()
        self.searches = asyncio.Semaphore(MOST_SEARCHES)
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
        other._environment = drop_project_libraries(self._environment, outside=self._root)
        return other

    async def containment(self) -> Containment:
        """Return the strongest containment that works here; each is tried out once."""
        async with self._detection_lock:
            if self._containment is None:
                self._containment = await self._detect_containment()
        return self._containment

    async def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        timeout: float | None,
        on_output: OnOutput | None = None,
        cap: int = MOST_OUTPUT,
        sandbox: Sequence[str] | None = None,
    ) -> ProcessResult:
        """Run a command until it ends or its timeout. When this returns or raises, no process of it is left.

        `sandbox`: options for bwrap. Raises `ToolError`, and runs nothing, if no sandbox works here.
        """
        launch = await self._plan_launch(command, cwd, sandbox)
        with closing(OutputCapture(self._folder, cap)) as output:
            return await self._run_launch(launch, timeout, output, on_output)

    async def start_piped(
        self, command: Sequence[str], *, cwd: Path, ends: "PipeEnds", sandbox: Sequence[str] | None = None
    ) -> ChildProcess:
        """Start a command with pipes; the caller must end it."""
        reaper = self._new_reaper()
        reaper.pipe = f"pipe:[{os.fstat(ends.stdout).st_ino}]"
        return await self._start_child(
            replace(await self._plan_launch(command, cwd, sandbox), ends=ends), ends.stdout, reaper
        )

    async def _plan_launch(
        self, command: Sequence[str], cwd: Path, sandbox: Sequence[str] | None = None
    ) -> "_Launch":
        if sandbox is not None:
            return await self._plan_sandboxed(command, cwd, sandbox)
        found = await self.containment()
        argv = (*self._namespace, *command) if found == "namespace" else tuple(command)
        return _Launch(argv, cwd, supervised=found == "supervisor")

    async def _plan_sandboxed(self, command: Sequence[str], cwd: Path, sandbox: Sequence[str]) -> "_Launch":
        failure = await self.sandbox_failure(network=UNSHARE_NETWORK not in sandbox)
        if failure:
            raise ToolError(
                f"This agent's commands run in a sandbox alone, and {failure}. {NO_SANDBOX_ADVICE}"
            )
        libraries = self._environment.get(LIBRARY_PATH)
        given = ("--setenv", LIBRARY_PATH, libraries) if libraries else ()
        words = (str(self._bwrap), *NAMESPACE_OPTIONS, *sandbox, *given, "--chdir", str(cwd), "--", *command)
        return _Launch(words, cwd, runs_bwrap=True)

    async def sandbox_failure(self, *, network: bool) -> str:
        """Return why no sandbox works here; an empty string if one does. Tried again until it works."""
        if self._bwrap is None:
            return "bwrap is not installed"
        async with self._detection_lock:
            if network in self._working_sandboxes:
                return ""
            argv = (
                self._bwrap,
                *NAMESPACE_OPTIONS,
                *TRIAL_SANDBOX_OPTIONS,
                *(() if network else (UNSHARE_NETWORK,)),
            )
            error_text = await self._try_launch(
                _Launch((*argv, "--", *NOOP_COMMAND), Path("/"), runs_bwrap=True)
            )
            if error_text:
                return f"bwrap does not work here ({error_text})"
            self._working_sandboxes.add(network)
        return ""

    async def _run_launch(
        self, launch: "_Launch", timeout: float | None, output: OutputCapture, on_output: OnOutput | None
    ) -> ProcessResult:
        reaper = self._new_reaper()
        async with _open_pipe(reaper) as (reader, write):
            try:
                process = await self._start_child(launch, write, reaper)
            finally:
                os.close(write)
            timed_out = await _watch_child(process, timeout, _drain_output(reader, output, on_output))
        if process.start_error is not None:
            raise ToolError(start_error_text(process.start_error, launch.cwd)) from process.start_error
        return ProcessResult(
            exit_code=process.exit_code,
            timed_out=timed_out,
            output=output.text(),
            truncated=output.is_truncated,
            spill_path=output.path,
        )

    async def _start_child(self, launch: "_Launch", write: int, reaper: Reaper) -> ChildProcess:
        name, _, value = reaper.marker.partition("=")
        environment = {**self._environment, name: value}
        if launch.runs_bwrap:
            environment = drop_project_libraries(environment, outside=self._root)
        spec = ChildSpec(
            argv=launch.argv,
            environment=environment,
            cwd=launch.cwd,
            stdout=write,
            stderr=launch.ends.stderr if launch.ends else None,
            stdin=launch.ends.stdin if launch.ends else None,
        )
        try:
            return await (SupervisedChild if launch.supervised else PlainChild).start(spec, reaper)
        except (OSError, ValueError) as error:
            raise ToolError(start_error_text(error, launch.cwd)) from error

    def _new_reaper(self) -> Reaper:
        marker = f"{MARKER}={os.getpid()}.{asyncio.get_running_loop().time():.9f}.{next(_count)}"
        return Reaper(marker, self._threads)

    async def _detect_containment(self) -> Containment:
        if self._namespace and await self._launch_works(
            _Launch((*self._namespace, *NOOP_COMMAND), Path("/"), runs_bwrap=True)
        ):
            return "namespace"
        if self._supervisor and await self._launch_works(_Launch(NOOP_COMMAND, Path("/"), supervised=True)):
            return "supervisor"
        return "session"

    async def _launch_works(self, launch: "_Launch") -> bool:
        return not await self._try_launch(launch)

    async def _try_launch(self, launch: "_Launch") -> str:
        """Run a trial command; return what is wrong, or an empty string."""
        try:
            with closing(OutputCapture(self._folder, MOST_OUTPUT)) as output:
                result = await self._run_launch(launch, TRIAL_SECONDS, output, None)
        except ToolError as error:
            return str(error)
        error_text = result.output.strip()[:MOST_ERROR_TEXT] or f"exit code {result.exit_code}"
        return error_text if result.exit_code or result.timed_out else ""


class PipeEnds(Struct, frozen=True):
    """The program's ends of its three pipes: its stdin, stdout and stderr."""

    stdin: int
    stdout: int
    stderr: int


class _Launch(Struct, frozen=True):
    argv: tuple[str, ...]
    cwd: Path
    supervised: bool = False
    runs_bwrap: bool = False
    """Whether the command is started by bwrap, which must load no library from the project."""
    ends: PipeEnds | None = None


def _has_interpreter() -> bool:
    """Return whether `sys.executable` can run the supervisor; a frozen program cannot."""
    return sys.platform == "linux" and bool(sys.executable) and not getattr(sys, "frozen", False)


def find_bwrap(path: str | None, *, outside: Path | None) -> str | None:
    """Find bwrap, first in the folders of the system, where agents cannot write."""
    folders = os.pathsep.join((*SYSTEM_FOLDERS, path or os.defpath))
    return find_program("bwrap", folders, outside=outside)


@asynccontextmanager
async def _open_pipe(reaper: Reaper) -> AsyncIterator[tuple[asyncio.StreamReader, int]]:
    """Open a pipe; with asyncio's own, waiting for a process would wait for all that hold the pipe."""
    read, write = os.pipe()
    reaper.pipe = f"pipe:[{os.fstat(read).st_ino}]"
    reader = asyncio.StreamReader(limit=CHUNK_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(read, "rb", buffering=0)
    )
    try:
        yield reader, write
    finally:
        transport.close()


async def _drain_output(
    reader: asyncio.StreamReader, output: OutputCapture, on_output: OnOutput | None
) -> None:
    data = b"?"
    while data:
        data = await reader.read(CHUNK_BYTES)
        text = output.feed(data, last=not data)
        if text and on_output is not None:
            on_output(text)


async def _watch_child(
    process: ChildProcess, timeout: float | None, drain: Coroutine[None, None, None]
) -> bool:
    """Wait for the child, end it with all it started, and read the output. Return whether it timed out."""
    try:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(drain)
            timed_out = await _wait_and_end(process, timeout)
            await asyncio.wait({reading}, timeout=DRAIN_SECONDS)
            reading.cancel()
            return timed_out
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def _wait_and_end(process: ChildProcess, timeout: float | None) -> bool:
    try:
        async with asyncio.timeout(timeout):
            await process.wait()
        return False
    except TimeoutError:
        return True
    finally:
        await process.end()


def start_error_text(error: OSError | ValueError, cwd: Path) -> str:
    if not isinstance(error, OSError):
        return "The command has a character that no program can be given, such as NUL: leave it out."
    if error.errno == errno.E2BIG:
        return "The command is too long to be started: write it to a file and run that."
    if not os.path.isdir(cwd):
        return f"There is no directory {cwd}: name one that exists."
    return f"The command could not be started: {error.strerror}."
