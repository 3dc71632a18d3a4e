"""Start a child process, plain or under the supervisor, and end it with all its descendants."""

import asyncio
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from asyncagents.tools.process.reaper import Reaper

# As a module the supervisor is compiled once, as a script it would be each time.
SUPERVISOR_CODE = (
    "import sys; sys.path.append(sys.argv[1]); import supervisor; supervisor.main(*sys.argv[2:])"
)
LENGTH_BYTES = 8
# A supervisor needs at most twelve seconds; one that does not end in this time was stopped or hangs.
SUPERVISOR_SECONDS = 20.0
# An interpreter may need this variable to find its own library.
LIBRARY_PATH = "LD_LIBRARY_PATH"
LIMIT_BASE = 1 << 62
REPORT_BYTES = 4096

_count = count()
_log = logging.getLogger(__name__)


class ChildSpec(Struct, frozen=True, kw_only=True):
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: Path
    stdout: int
    """File descriptor for stdout."""
    stderr: int | None = None
    """File descriptor for stderr; None: the same as stdout."""
    stdin: int | None = None
    """File descriptor for stdin; None: /dev/null."""


class ChildProcess(Protocol):
    async def wait(self) -> None: ...

    async def end(self) -> None:
        """End the child and all it started; a cancel is raised only after that."""

    @property
    def exit_code(self) -> int: ...

    @property
    def start_error(self) -> OSError | None:
        """The error if the command could not be executed."""


class PlainChild:
    """A child without a supervisor: the reaper finds and ends all it started."""

    def __init__(self, process: asyncio.subprocess.Process, reaper: Reaper) -> None:
        self._process = process
        self._reaper = reaper
        reaper.leaders.append(process.pid)

    @classmethod
    async def start(cls, spec: ChildSpec, reaper: Reaper) -> "PlainChild":
        try:
            given = asyncio.subprocess.DEVNULL if spec.stdin is None else spec.stdin
            process = await _spawn(spec.argv, spec, spec.environment, given)
        except asyncio.CancelledError:
            await reaper.end(None)
            raise
        return cls(process, reaper)

    async def wait(self) -> None:
        await self._process.wait()

    async def end(self) -> None:
        await self._reaper.end(self._process)

    @property
    def exit_code(self) -> int:
        return _shell_exit_code(self._process.returncode or 0)

    @property
    def start_error(self) -> None:
        return None


class SupervisedChild:
    """A child that `supervisor.py` runs: all it started ends with it or with this process."""

    def __init__(self, keeper: asyncio.subprocess.Process, ours: socket.socket, reaper: Reaper) -> None:
        self._supervisor = keeper
        self._socket = ours
        self._reaper = reaper
        self._report: dict[str, int] = {}
        reaper.leaders.append(keeper.pid)

    @classmethod
    async def start(cls, spec: ChildSpec, reaper: Reaper) -> "SupervisedChild":
        """Start the supervisor and send it the spec; before that it has no child and may simply be killed."""
        message = _encode_spec(spec)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                folder = str(Path(__file__).parent)
                given = () if spec.stdin is None else (str(spec.stdin),)
                argv = (sys.executable, "-I", "-S", "-c", SUPERVISOR_CODE, folder, str(os.getpid()), *given)
                libraries = {name: value for name, value in spec.environment.items() if name == LIBRARY_PATH}
                keeper = await _spawn(argv, spec, libraries, theirs.fileno())
        except BaseException:
            ours.close()
            raise
        child = cls(keeper, ours, reaper)
        reaper.limit = _mark_by_limit(keeper.pid)
        try:
            ours.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(ours, message)
        except BaseException:
            await child.end()
            raise
        return child

    async def wait(self) -> None:
        """Wait until the command has ended; processes that it left behind may still run."""
        loop = asyncio.get_running_loop()
        with suppress(ConnectionError):
            while "exit" not in self._report and (data := await loop.sock_recv(self._socket, REPORT_BYTES)):
                self._parse_report(data)

    async def end(self) -> None:
        cancelled = await self._wait_stopped()
        self._read_rest()
        self._socket.close()
        left = self._report.get("left")
        if left is None:
            # The supervisor was killed before it reported, perhaps by the command.
            if "pid" in self._report:
                self._reaper.leaders.append(self._report["pid"])
            await self._reaper.end(self._supervisor)
        elif left:
            _log.warning(
                "action=end_processes pid=%s: %d processes are still running after SIGKILL",
                self._report.get("pid"),
                left,
            )
        if cancelled is not None:
            raise cancelled

    @property
    def exit_code(self) -> int:
        return _shell_exit_code(self._report.get("exit", self._supervisor.returncode or 0))

    @property
    def start_error(self) -> OSError | None:
        code = self._report.get("errno")
        return None if code is None else OSError(code, os.strerror(code))

    async def _wait_stopped(self) -> asyncio.CancelledError | None:
        """Stop the supervisor and wait for it; return a cancel that came meanwhile."""
        cancelled = None
        loop = asyncio.get_running_loop()
        until = loop.time() + SUPERVISOR_SECONDS
        if self._supervisor.returncode is None:
            self._request_stop()
        while self._supervisor.returncode is None and loop.time() < until:
            try:
                async with asyncio.timeout_at(until):
                    await self._supervisor.wait()
            except TimeoutError:
                break
            except asyncio.CancelledError as error:
                cancelled = error
        return cancelled

    def _request_stop(self) -> None:
        """Shut down the socket, which stops the supervisor; signals wake it if it waits or was stopped."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        with suppress(ProcessLookupError):
            # Not by asyncio: it would first poll the child, and take the exit status from its own watcher.
            os.kill(self._supervisor.pid, signal.SIGCONT)
            os.kill(self._supervisor.pid, signal.SIGTERM)

    def _read_rest(self) -> None:
        """Read the last lines of the report, which are in the socket even if the supervisor is dead."""
        with suppress(OSError):
            while data := self._socket.recv(REPORT_BYTES):
                self._parse_report(data)

    def _parse_report(self, data: bytes) -> None:
        """Parse lines of the report; each is written, and so read, as a whole."""
        for line in data.decode("ascii").splitlines():
            word, _, number = line.partition(" ")
            self._report[word] = int(number)


def _mark_by_limit(pid: int) -> int:
    """Mark a process and its later descendants by a real-time limit of thousands of years; return it."""
    limit = LIMIT_BASE | os.getpid() << 32 | next(_count) & 0xFFFFFFFF
    with suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_RTTIME, (limit, limit))
    return limit


def _encode_spec(spec: ChildSpec) -> bytes:
    words = [os.fsencode(word) for word in spec.argv]
    variables = [os.fsencode(f"{name}={value}") for name, value in spec.environment.items()]
    parts = [str(len(words)).encode(), *words, *variables]
    if any(b"\0" in part for part in parts):
        raise ValueError("a word of the command has a NUL, which separates words here: leave it out")
    message = b"\0".join(parts)
    return len(message).to_bytes(LENGTH_BYTES, "big") + message


async def _spawn(
    argv: tuple[str, ...], spec: ChildSpec, environment: Mapping[str, str], given: int
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *argv,
        cwd=spec.cwd,
        env=environment,
        stdin=given,
        stdout=spec.stdout,
        stderr=spec.stdout if spec.stderr is None else spec.stderr,
        start_new_session=True,
        pass_fds=() if spec.stdin in (None, given) else (spec.stdin,),
    )


def _shell_exit_code(code: int) -> int:
    return 128 - code if code < 0 else code
