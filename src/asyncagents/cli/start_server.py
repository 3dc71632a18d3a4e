"""Finds the server of a data directory, or starts one that ends by itself when it is at rest."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from asyncagents.cli.exit import CliError, as_cli_error
from asyncagents.cli.find_server import TargetServer, own_server
from asyncagents.config.api import api_config
from asyncagents.config.clock import SystemClock
from asyncagents.config.env import system_environment
from asyncagents.config.paths import absolute_variables
from asyncagents.domain.task.view import iso_time
from asyncagents.server.discovery import Listing, find_server, is_server_lock_held
from asyncagents.version import VERSION

LOG_FILE = "server.log"
MOST_LOG_BYTES = 1024 * 1024
"""A longer log is renamed to `server.log.old` before the next start."""
SHOWN_BYTES = 2_000
"""How much of the end of the log an error shows."""
START_SECONDS = 30.0
LOOK_SECONDS = 0.05
MOST_STARTS = 3
"""How many servers are started that end before they listen, without an error."""


async def find_or_start_server(
    data: Path, directory: Path, *, rest_seconds: float | None = None, seconds: float = START_SECONDS
) -> TargetServer | None:
    """Return the server of a data directory; if none runs, start `serve --until-rest` and wait for it.

    The server goes on when this process ends, and ends by itself after a rest of five minutes, or of
    `rest_seconds`. `directory`: where a new server reads its configuration. Calls at the same time, from any
    number of processes, return the same server. Returns None if the caller must run sessions itself:
    ASYNCAGENTS_API_ENABLED=false, or the server of a `run --api` uses the data directory. Raises `CliError`,
    with the end of the log, if no server listens within `seconds`.
    """
    try:
        listing = find_server(data)
        if listing is None and not api_config(system_environment()).enabled:
            return None
        if listing is None:
            listing = await ServerStart(data, directory, rest_seconds).wait(seconds)
    except OSError as error:
        cause = as_cli_error(error)
        hint = cause.hint or "the data directory must be writable: `asyncagents doctor` checks it"
        raise CliError(f"no server can be started on {data}: {cause.message}", hint=hint) from error
    return own_server(listing) if listing.serves_all else None


class ServerStart:
    """Starts a server in the background, unless another process does, and waits until one listens."""

    def __init__(self, data: Path, directory: Path, rest_seconds: float | None) -> None:
        self._data = data.absolute()
        self._directory = directory.absolute()
        self._rest_seconds = rest_seconds
        self._server: DetachedProcess | None = None
        self._starts = 0

    async def wait(self, seconds: float) -> Listing:
        """Wait for a listing, and start a server as long as no process holds the lock of the server."""
        end = asyncio.get_running_loop().time() + seconds
        with ServerLog(self._data / LOG_FILE) as log:
            try:
                while (listing := find_server(self._data)) is None:
                    await self._start_if_needed(log)
                    if asyncio.get_running_loop().time() > end:
                        raise log.error(f"the server of {self._data} is not listening after {seconds:g} s")
                    await asyncio.sleep(LOOK_SECONDS)
            finally:
                if self._server is not None:
                    self._server.close()
        return listing

    async def _start_if_needed(self, log: "ServerLog") -> None:
        if self._server is not None and not self._server.has_ended():
            return
        if is_server_lock_held(self._data):  # by a server that is starting or stopping
            return
        if self._starts == MOST_STARTS:
            raise log.error(f"the server of {self._data} has ended {MOST_STARTS} times before it listened")
        self._starts += 1
        log.begin(f"asyncagents {VERSION}, in {self._directory}, started by process {os.getpid()}")
        if self._server is not None:
            self._server.close()
        self._server = await DetachedProcess.start(self._arguments(), cwd=self._data, output=log.fd)

    def _arguments(self) -> tuple[str, ...]:
        places = ("--directory", str(self._directory), "--data-dir", str(self._data))
        rest = () if self._rest_seconds is None else ("--rest-seconds", f"{self._rest_seconds:g}")
        # -P: no module is imported from the current directory
        return ("-P", "-m", "asyncagents", "serve", "--until-rest", *rest, *places)


class DetachedProcess:
    """A Python program that is no descendant of this process: some editors end all descendants of an agent.

    A process in between starts it and ends at once. A pipe that only the program holds tells its end.
    """

    LAUNCH = "import os, sys; os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ)"

    def __init__(self, end_of_pipe: int) -> None:
        self._end_of_pipe = end_of_pipe

    @classmethod
    async def start(cls, arguments: tuple[str, ...], *, cwd: Path, output: int) -> "DetachedProcess":
        return cls(await asyncio.to_thread(cls._launch, arguments, cwd, output))

    @classmethod
    def _launch(cls, arguments: tuple[str, ...], cwd: Path, output: int) -> int:
        read_end, write_end = os.pipe()
        os.set_blocking(read_end, False)
        try:
            subprocess.run(
                (sys.executable, "-I", "-S", "-c", cls.LAUNCH, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=cwd,  # a project may be deleted while the server runs
                env=absolute_variables(system_environment()),
                pass_fds=(write_end,),
                start_new_session=True,  # no signal of a terminal reaches it
                check=False,
            )
        finally:
            os.close(write_end)
        return read_end

    def has_ended(self) -> bool:
        try:
            return os.read(self._end_of_pipe, 1) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        """Stop watching the program; it goes on."""
        os.close(self._end_of_pipe)


class ServerLog:
    """The log of servers that run in the background; several may write to it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> "ServerLog":
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size > MOST_LOG_BYTES:
            self._path.replace(f"{self._path}.old")
        self.fd = os.open(self._path, flags, 0o600)
        self._began = os.fstat(self.fd).st_size
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self.fd)

    def begin(self, text: str) -> None:
        """Log the start of a server."""
        os.write(self.fd, f"{iso_time(SystemClock().now())} {text}\n".encode(errors="replace"))
        self._began = os.fstat(self.fd).st_size

    def error(self, message: str) -> CliError:
        """Build an error that shows the end of what was logged since the last start."""
        began = max(self._began, os.fstat(self.fd).st_size - SHOWN_BYTES)
        lines = os.pread(self.fd, SHOWN_BYTES, began).decode(errors="replace").strip()
        return CliError(f"{message}:\n{lines}" if lines else message, hint=f"its log is {self._path}")
