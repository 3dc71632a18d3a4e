"""Finds and ends all that a process started, however it hid: by mark, session, parent, pipe, limit."""

import asyncio
import logging
import os
import signal
import time
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

GRACE = 2.0
STEP = 0.02
# After SIGKILL only a process that hangs in the kernel, or one of another user, is still there.
PATIENCE = 10.0
# One that is just starting may have nothing to show: it counts when it was not seen twice.
QUIET = 2
PROC = Path("/proc")

_log = logging.getLogger(__name__)


class _Seen(Struct, frozen=True):
    """A process; its start tells it from a later one with the same number."""

    pid: int
    parent: int
    session: int
    started: int


class Hunt:
    def __init__(self, marker: str, threads: Executor | None = None) -> None:
        """`threads`: where it looks and waits; those of the loop, if not given."""
        self.marker = marker
        self._threads = threads
        self.leaders: list[int] = []
        """The first processes: each leads a session of its own."""
        self.pipe: str = ""
        """What it writes to, as the kernel names it."""
        self.limit: int | None = None
        """A number among its limits that only says whose it is: it is inherited, and seldom changed."""
        self._known: set[tuple[int, int]] = set()

    async def end(self, process: asyncio.subprocess.Process | None) -> None:
        """Ask all to end, then end them. A cancel waits until that is done."""
        done = asyncio.get_running_loop().run_in_executor(self._threads, self._end)
        cancelled: asyncio.CancelledError | None = None
        while not done.done() or (process is not None and process.returncode is None and done.result()):
            try:
                await (asyncio.shield(done) if process is None or not done.done() else process.wait())
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _end(self) -> bool:
        """Whether all are gone."""
        if not PROC.joinpath("self").exists():
            return self._end_group()
        gone = self._gone(signal.SIGTERM, GRACE) or self._gone(signal.SIGKILL, PATIENCE)
        if not gone:
            _log.warning("processes of %s do not end", self.leaders)
        return gone

    def _end_group(self) -> bool:
        """Without /proc there is only the group to go by."""
        for leader in self.leaders:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(leader, signal.SIGTERM)
                time.sleep(GRACE)
                os.killpg(leader, signal.SIGKILL)
        return True

    def _gone(self, kind: signal.Signals, seconds: float) -> bool:
        """Send the signal, to each once if it can be ignored, until none is left or time is up."""
        told: set[tuple[int, int]] = set()
        quiet = 0
        for _ in range(int(seconds / STEP)):
            found = self.survivors()
            quiet = 0 if found else quiet + 1
            if quiet == QUIET:
                return True
            for pid, started in found:
                if kind == signal.SIGKILL or (pid, started) not in told:
                    told.add((pid, started))
                    _send(pid, kind)
            if found:
                time.sleep(STEP)
        return False

    def survivors(self) -> set[tuple[int, int]]:
        """All that live, by number and start."""
        alive = [seen for name in os.listdir(PROC) if name.isdigit() and (seen := _look(int(name)))]
        found = {seen.pid for seen in alive if self._is_ours(seen)}
        while more := {seen.pid for seen in alive if seen.parent in found} - found:
            found |= more
        ours = {(seen.pid, seen.started) for seen in alive if seen.pid in found}
        self._known |= ours
        return ours

    def _is_ours(self, seen: _Seen) -> bool:
        if seen.pid == os.getpid():
            return False
        if (seen.pid, seen.started) in self._known or seen.session in self.leaders:
            return True
        return (
            _marked(seen.pid, self.marker.encode())
            or _writes(seen.pid, self.pipe)
            or _limited(seen.pid, self.limit)
        )


def _send(pid: int, kind: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, kind)


def _look(pid: int) -> _Seen | None:
    """A process that is alive: one that only waits to be counted, with no thread but its first, is not."""
    try:
        stat = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in {b"Z", b"X"} and int(fields[17]) <= 1:
        return None
    return _Seen(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def _marked(pid: int, marker: bytes) -> bool:
    try:
        return marker in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _writes(pid: int, pipe: str) -> bool:
    with suppress(OSError):
        return any(
            os.readlink(f"/proc/{pid}/fd/{stream}") == pipe for stream in os.listdir(f"/proc/{pid}/fd")
        )
    return False


def _limited(pid: int, limit: int | None) -> bool:
    if limit is None:
        return False
    try:
        return str(limit).encode() in (PROC / str(pid) / "limits").read_bytes().split()
    except OSError:
        return False
