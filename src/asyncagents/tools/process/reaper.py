"""Find and end all descendants of a process by marker, session, parent, pipe or resource limit."""

import asyncio
import logging
import os
import signal
import time
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

GRACE_SECONDS = 2.0
STEP_SECONDS = 0.02
# After SIGKILL only a process that hangs in the kernel, or one of another user, is left.
KILL_SECONDS = 10.0
# A process that is just starting may show none of the signs: all are gone when two rounds find none.
QUIET_ROUNDS = 2
PROC = Path("/proc")

_log = logging.getLogger(__name__)


class _ProcessInfo(Struct, frozen=True):
    """A live process; its start time tells it from a later one with the same PID."""

    pid: int
    parent: int
    session: int
    started: int


class Reaper:
    def __init__(self, marker: str, threads: Executor | None = None) -> None:
        """`threads`: runs the blocking search; the loop's default executor if not given."""
        self.marker = marker
        self._threads = threads
        self.leaders: list[int] = []
        """PIDs of the first processes: each leads a session."""
        self.pipe: str = ""
        """The pipe that the processes write to, as in /proc/PID/fd: `pipe:[inode]`."""
        self.limit: int | None = None
        """A resource limit whose value marks our processes: it is inherited and seldom changed."""
        self._known_processes: set[tuple[int, int]] = set()

    async def end(self, process: asyncio.subprocess.Process | None) -> None:
        """Send SIGTERM, then SIGKILL, to all processes. A cancel is raised only when they have ended."""
        done = asyncio.get_running_loop().run_in_executor(self._threads, self._end_all)
        cancelled: asyncio.CancelledError | None = None
        while not done.done() or (process is not None and process.returncode is None and done.result()):
            try:
                await (asyncio.shield(done) if process is None or not done.done() else process.wait())
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _end_all(self) -> bool:
        """End all processes; return whether they are gone."""
        if not PROC.joinpath("self").exists():
            return self._end_group()
        gone = self._signal_until_gone(signal.SIGTERM, GRACE_SECONDS) or self._signal_until_gone(
            signal.SIGKILL, KILL_SECONDS
        )
        if not gone:
            _log.warning("action=reap leaders=%s: processes are still running after SIGKILL", self.leaders)
        return gone

    def _end_group(self) -> bool:
        """End the process groups, where there is no /proc."""
        for leader in self.leaders:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, signal.SIGTERM)
                time.sleep(GRACE_SECONDS)
                os.killpg(leader, signal.SIGKILL)
        return True

    def _signal_until_gone(self, kind: signal.Signals, seconds: float) -> bool:
        """Send the signal (other than SIGKILL: once each) until no process is left (True) or time is up."""
        recipients: set[tuple[int, int]] = set()
        quiet = 0
        for _ in range(int(seconds / STEP_SECONDS)):
            found = self.survivors()
            quiet = 0 if found else quiet + 1
            if quiet == QUIET_ROUNDS:
                return True
            for pid, started in found:
                if kind == signal.SIGKILL or (pid, started) not in recipients:
                    recipients.add((pid, started))
                    _send_signal(pid, kind)
            if found:
                time.sleep(STEP_SECONDS)
        return False

    def survivors(self) -> set[tuple[int, int]]:
        """Return all live processes of ours, by PID and start time."""
        alive = [seen for name in os.listdir(PROC) if name.isdigit() and (seen := _read_process(int(name)))]
        found = {seen.pid for seen in alive if self._is_ours(seen)}
        while more := {seen.pid for seen in alive if seen.parent in found} - found:
            found |= more
        ours = {(seen.pid, seen.started) for seen in alive if seen.pid in found}
        self._known_processes |= ours
        return ours

    def _is_ours(self, seen: _ProcessInfo) -> bool:
        if seen.pid == os.getpid():
            return False
        if (seen.pid, seen.started) in self._known_processes or seen.session in self.leaders:
            return True
        return (
            _has_marker(seen.pid, self.marker.encode())
            or _writes_to_pipe(seen.pid, self.pipe)
            or _has_limit(seen.pid, self.limit)
        )


def _send_signal(pid: int, kind: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, kind)


def _read_process(pid: int) -> _ProcessInfo | None:
    """Return the process if it is alive; a zombie whose only thread is its first is not."""
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in {b"Z", b"X"} and int(fields[17]) <= 1:
        return None
    return _ProcessInfo(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def _has_marker(pid: int, marker: bytes) -> bool:
    try:
        return marker in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _writes_to_pipe(pid: int, pipe: str) -> bool:
    with suppress(OSError):
        return any(
            os.readlink(f"/proc/{pid}/fd/{stream}") == pipe for stream in os.listdir(f"/proc/{pid}/fd")
        )
    return False


def _has_limit(pid: int, limit: int | None) -> bool:
    if limit is None:
        return False
    try:
        return str(limit).encode() in (PROC / str(pid) / "limits").read_bytes().split()
    except OSError:
        return False
