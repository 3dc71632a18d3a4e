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
NAME = b"asyncagents"
ORDER = 0
"""The socket to the parent: it sends the request, gets our report, and closes to stop the command or dies."""
LENGTH = 8
EINVAL = 22
GRACE = 2.0
STEP = 0.02
# After SIGKILL only a process that hangs in the kernel, or one of another user, is left.
PATIENCE = 10.0
# Signals wake the supervisor; this interval covers a signal that got lost.
LOOK = 1.0


def main(started_by: str, given: str = "") -> None:
    """Run the command that the control socket requests. `given`: its stdin, if it has one."""
    parent = int(started_by)
    _prctl(PR_SET_NAME, NAME)
    # The command runs as the same user: it must not trace the supervisor or take its socket.
    _prctl(PR_SET_DUMPABLE, 0)
    if _prctl(PR_SET_CHILD_SUBREAPER, 1) or _prctl(PR_SET_PDEATHSIG, _signal.SIGTERM):
        os._exit(1)
    argv, environment = _order()
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    # The parent may have died before PR_SET_PDEATHSIG was set.
    if os.getppid() != parent:
        os._exit(1)
    keeper = os.getpid()
    try:
        command = os.fork()
    except OSError as error:
        _say(f"errno {error.errno}")
        os._exit(1)
    if command == 0:
        _become(argv, environment, mask, keeper, given=given)
    if given:
        _let_go(int(given))
    _say(f"pid {command}")
    kept = Command(command, parent)
    kept.watch()
    _say(f"left {kept.end()}")
    os._exit(0 if kept.ended else 1)


class Command:
    """The command and its descendants: each is our child, or becomes our child when its parent dies."""

    def __init__(self, pid: int, parent: int) -> None:
        self._pid = pid
        self._parent = parent
        self.ended = False

    def watch(self) -> None:
        """Wait until the command has ended, or the parent has closed the socket or died."""
        os.set_blocking(ORDER, False)
        while self._reap() and not self.ended and not self._unwanted():
            _signal.sigtimedwait((_signal.SIGCHLD, _signal.SIGTERM), LOOK)

    def end(self) -> int:
        """Send SIGTERM, then SIGKILL, to all descendants; return how many are left."""
        return self._kill() if self._ask() else 0

    def _unwanted(self) -> bool:
        """Return whether the parent is dead or has closed the socket; a signal proves nothing."""
        if os.getppid() != self._parent:
            return True
        try:
            return not os.read(ORDER, 1)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _reap(self) -> bool:
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
                _say(f"exit {os.waitstatus_to_exitcode(status)}")

    def _ask(self) -> bool:
        """Send SIGTERM once to each descendant; return whether any is left after the grace period."""
        asked: set[tuple[int, bytes]] = set()
        until = _now() + GRACE
        while left := self._reap():
            if _now() > until:
                break
            new = descendants() - asked
            _send({pid for pid, _ in new}, _signal.SIGTERM)
            asked |= new
            _signal.sigtimedwait((_signal.SIGCHLD,), STEP)
        return left

    def _kill(self) -> int:
        until = _now() + PATIENCE
        while self._reap():
            if _now() > until:
                return max(1, len(descendants()))
            self._freeze(until)
            _send({pid for pid, _ in descendants()}, _signal.SIGKILL)
            _signal.sigtimedwait((_signal.SIGCHLD,), STEP)
        return 0

    def _freeze(self, until: float) -> None:
        """Send SIGSTOP to all descendants, so that none forks while others are killed.

        A process that forks and exits may escape the list, but its child becomes ours; that list is short.
        """
        frozen: set[int] = set()
        while (new := children() - frozen or {pid for pid, _ in descendants()} - frozen) and _now() < until:
            _send(new, _signal.SIGSTOP)
            frozen |= new
            self._reap()


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
        if name.isdigit() and (seen := _look(name)):
            parent, started = seen
            children.setdefault(parent, []).append((int(name), started))
    found: set[tuple[int, bytes]] = set()
    parents = [os.getpid()]
    while parents:
        more = children.pop(parents.pop(), [])
        found.update(more)
        parents.extend(pid for pid, _ in more)
    return found


def _look(name: str) -> tuple[int, bytes] | None:
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


def _send(processes: set[int], kind: int) -> None:
    for pid in processes:
        try:
            os.kill(pid, kind)
        except (ProcessLookupError, PermissionError):
            continue


def _order() -> tuple[list[bytes], dict[bytes, bytes]]:
    """Read the number of words, the words and the environment, all separated by NUL."""
    size = int.from_bytes(_read(LENGTH), "big")
    number, *rest = _read(size).split(b"\0")
    words, variables = rest[: int(number)], rest[int(number) :]
    return words, {name: value for name, _, value in (each.partition(b"=") for each in variables)}


def _read(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = os.read(ORDER, size - len(data))
        if not part:
            os._exit(1)
        data += part
    return bytes(data)


def _say(line: str) -> None:
    try:
        os.write(ORDER, line.encode() + b"\n")
    except OSError:
        return


def _let_go(given: int) -> None:
    """Close our copies of the pipes, so that their other ends see when the command has ended."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    os.close(given)


def _become(
    argv: list[bytes], environment: dict[bytes, bytes], mask: set[int], keeper: int, *, given: str
) -> None:
    """Exec the command in a new session, so that signals to its group miss us; it is killed when we die."""
    report = os.dup(ORDER)
    try:
        _prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
        os.setsid()
        os.dup2(int(given) if given else os.open(os.devnull, os.O_RDONLY), ORDER)
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
