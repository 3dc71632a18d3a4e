"""The supervisor, a separate program: runs one command, then ends all processes that the command left behind.

As a subreaper it becomes the parent of every orphan among its descendants, so none can escape. It is started
for each command, so it imports only what loads fast: `signal` and `ctypes` would cost more than the rest.
"""

import _ctypes
import _signal  # type: ignore[import-not-found]  # what `signal` is made of has no stub
import os
import time

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PROCESS_NAME = b"asyncagents"
CONTROL_SOCKET = 0
"""The socket to the parent: it sends the request, gets our report, and closes to stop the command or dies."""
LENGTH_BYTES = 8
EINVAL = 22
GRACE_SECONDS = 2.0
STEP_SECONDS = 0.02
# After SIGKILL only a process that hangs in the kernel, or one of another user, is left.
KILL_SECONDS = 10.0
# Signals wake the supervisor; this interval covers a signal that got lost.
POLL_SECONDS = 1.0


def main(started_by: str, given: str = "") -> None:
    """Run the command that the control socket requests. `given`: its stdin, if it has one."""
    parent = int(started_by)
    _prctl(PR_SET_NAME, PROCESS_NAME)
    # The command runs as the same user: it must not trace the supervisor or take its socket.
    _prctl(PR_SET_DUMPABLE, 0)
    if _prctl(PR_SET_CHILD_SUBREAPER, 1) or _prctl(PR_SET_PDEATHSIG, _signal.SIGTERM):
        os._exit(1)
    argv, environment = _read_request()
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    # The parent may have died before PR_SET_PDEATHSIG was set.
    if os.getppid() != parent:
        os._exit(1)
    keeper = os.getpid()
    try:
        command = os.fork()
    except OSError as error:
        _report(f"errno {error.errno}")
        os._exit(1)
    if command == 0:
        _exec_command(argv, environment, mask, keeper, given=given)
    if given:
        _release_streams(int(given))
    _report(f"pid {command}")
    supervised_command = SupervisedCommand(command, parent)
    supervised_command.watch()
    _report(f"left {supervised_command.end()}")
    os._exit(0 if supervised_command.ended else 1)


class SupervisedCommand:
    """The command and its descendants: each is our child, or becomes our child when its parent dies."""

    def __init__(self, pid: int, parent: int) -> None:
        self._pid = pid
        self._parent = parent
        self.ended = False

    def watch(self) -> None:
        """Wait until the command has ended, or the parent has closed the socket or died."""
        os.set_blocking(CONTROL_SOCKET, False)
        while self._reap_children() and not self.ended and not self._is_unwanted():
            _signal.sigtimedwait((_signal.SIGCHLD, _signal.SIGTERM), POLL_SECONDS)

    def end(self) -> int:
        """Send SIGTERM, then SIGKILL, to all descendants; return how many are left."""
        return self._kill_all() if self._terminate_all() else 0

    def _is_unwanted(self) -> bool:
        """Return whether the parent is dead or has closed the socket; a signal proves nothing."""
        if os.getppid() != self._parent:
            return True
        try:
            return not os.read(CONTROL_SOCKET, 1)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _reap_children(self) -> bool:
        """Reap dead children; return whether a child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                self.ended = True
                _report(f"exit {os.waitstatus_to_exitcode(status)}")

    def _terminate_all(self) -> bool:
        """Send SIGTERM once to each descendant; return whether any is left after the grace period."""
        asked: set[tuple[int, bytes]] = set()
        until = _now() + GRACE_SECONDS
        while left := self._reap_children():
            if _now() > until:
                break
            new = descendants() - asked
            _send_signal({pid for pid, _ in new}, _signal.SIGTERM)
            asked |= new
            _signal.sigtimedwait((_signal.SIGCHLD,), STEP_SECONDS)
        return left

    def _kill_all(self) -> int:
        until = _now() + KILL_SECONDS
        while self._reap_children():
            if _now() > until:
                return max(1, len(descendants()))
            self._freeze_all(until)
            _send_signal({pid for pid, _ in descendants()}, _signal.SIGKILL)
            _signal.sigtimedwait((_signal.SIGCHLD,), STEP_SECONDS)
        return 0

    def _freeze_all(self, until: float) -> None:
        """Send SIGSTOP to all descendants, so that none forks while others are killed.

        A process that forks and exits may escape the list, but its child becomes ours; that list is short.
        """
        frozen: set[int] = set()
        while (new := children() - frozen or {pid for pid, _ in descendants()} - frozen) and _now() < until:
            _send_signal(new, _signal.SIGSTOP)
            frozen |= new
            self._reap_children()


def children() -> set[int]:
    try:
        file = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    except OSError:
        return set()
    data = b""
    while more := os.read(file, 65536):
        data += more
    os.close(file)
    return {int(pid) for pid in data.split()}


def descendants() -> set[tuple[int, bytes]]:
    """Return all descendants, by PID and start time."""
    children: dict[int, list[tuple[int, bytes]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (seen := _read_stat(name)):
            parent, started = seen
            children.setdefault(parent, []).append((int(name), started))
    found: set[tuple[int, bytes]] = set()
    parents = [os.getpid()]
    while parents:
        more = children.pop(parents.pop(), [])
        found.update(more)
        parents.extend(pid for pid, _ in more)
    return found


def _read_stat(name: str) -> tuple[int, bytes] | None:
    """Return parent and start time, also of a zombie: perhaps only its first thread has ended."""
    try:
        file = os.open(f"/proc/{name}/stat", os.O_RDONLY)
    except OSError:
        return None
    try:
        stat = os.read(file, 4096)
    except OSError:
        return None
    finally:
        os.close(file)
    fields = stat[stat.rindex(b")") + 2 :].split()
    return int(fields[1]), fields[19]


def _send_signal(processes: set[int], kind: int) -> None:
    for pid in processes:
        try:
            os.kill(pid, kind)
        except (ProcessLookupError, PermissionError):
            continue


def _read_request() -> tuple[list[bytes], dict[bytes, bytes]]:
    """Read the number of words, the words and the environment, all separated by NUL."""
    size = int.from_bytes(_read_exactly(LENGTH_BYTES), "big")
    number, *rest = _read_exactly(size).split(b"\0")
    words, variables = rest[: int(number)], rest[int(number) :]
    return words, {name: value for name, _, value in (each.partition(b"=") for each in variables)}


def _read_exactly(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = os.read(CONTROL_SOCKET, size - len(data))
        if not part:
            os._exit(1)
        data += part
    return bytes(data)


def _report(line: str) -> None:
    try:
        os.write(CONTROL_SOCKET, line.encode() + b"\n")
    except OSError:
        return


def _release_streams(given: int) -> None:
    """Close our copies of the pipes, so that their other ends see when the command has ended."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    os.close(given)


def _exec_command(
    argv: list[bytes], environment: dict[bytes, bytes], mask: set[int], keeper: int, *, given: str
) -> None:
    """Exec the command in a new session, so that signals to its group miss us; it is killed when we die."""
    report = os.dup(CONTROL_SOCKET)
    try:
        _prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
        os.setsid()
        os.dup2(int(given) if given else os.open(os.devnull, os.O_RDONLY), CONTROL_SOCKET)
        if given:
            os.close(int(given))
        for ignored_by_python in (_signal.SIGPIPE, _signal.SIGXFSZ):
            _signal.signal(ignored_by_python, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, mask)
        if os.getppid() == keeper:
            os.execvpe(argv[0], argv, environment)
    except (OSError, ValueError) as error:
        os.write(report, f"errno {getattr(error, 'errno', EINVAL)}\n".encode())
    finally:
        os._exit(127)


def _now() -> float:
    return time.monotonic()  # noqa: TID251  a separate program has no injected clock


def _prctl(option: int, value: int | bytes) -> int:
    program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # None: this program, which includes libc
    call = _ctypes.dlsym(program, "prctl")
    done: int = _ctypes.call_function(call, (option, value, 0, 0, 0))
    return done
