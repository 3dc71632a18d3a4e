"""A program of its own: runs one command, and ends with it all that the command left behind.

It knows them for sure: to a subreaper Linux gives every orphan among its descendants, however it hid. It is
started for each command, so it takes only what loads at once: `signal` and `ctypes` cost more than the rest.
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
"""The socket to who started us: its order, our report, and its end when it has enough or is dead."""
LENGTH = 8
EINVAL = 22
GRACE = 2.0
STEP = 0.02
# After SIGKILL only a process that hangs in the kernel, or one of another user, is still there.
PATIENCE = 10.0
# Signals wake us; this is for the one that got lost.
LOOK = 1.0


def main(started_by: str, given: str = "") -> None:
    """`given`: where the command reads, if it has anything to read."""
    parent = int(started_by)
    _prctl(PR_SET_NAME, NAME)
    # The command is of the same user: it shall not trace us, nor take our socket.
    _prctl(PR_SET_DUMPABLE, 0)
    if _prctl(PR_SET_CHILD_SUBREAPER, 1) or _prctl(PR_SET_PDEATHSIG, _signal.SIGTERM):
        os._exit(1)
    argv, environment = _order()
    mask = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    # The parent may have died before we asked to be told.
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
    """The command and all that comes from it: each is our child, or will be once its parent is dead."""

    def __init__(self, pid: int, parent: int) -> None:
        self._pid = pid
        self._parent = parent
        self.ended = False

    def watch(self) -> None:
        """Until it has ended, or nobody wants it any more."""
        os.set_blocking(ORDER, False)
        while self._reap() and not self.ended and not self._unwanted():
            _signal.sigtimedwait((_signal.SIGCHLD, _signal.SIGTERM), LOOK)

    def end(self) -> int:
        """Ask all to end, then end them; how many are left all the same."""
        return self._kill() if self._ask() else 0

    def _unwanted(self) -> bool:
        """A signal alone says nothing: the command can send one too."""
        if os.getppid() != self._parent:
            return True
        try:
            return not os.read(ORDER, 1)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _reap(self) -> bool:
        """Whether a child is left, when the dead are counted."""
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
        """Whether any is left when each was asked once and had its time."""
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
        """Stop all of them: while one is killed, another forks, and so for ever.

        One that forks and is gone is never where it was seen, but its child comes to us: that list is short.
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
    """All of ours, by number and start."""
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
    """Its parent and its start; also of one that seems dead: it may be that only its first thread is."""
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
    """The number of words, the words and the environment, all parted by NUL."""
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
    """Who talks with the command must hear when it is gone, though we are not."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    os.close(given)


def _become(
    argv: list[bytes], environment: dict[bytes, bytes], mask: set[int], keeper: int, *, given: str
) -> None:
    """The command, in a session of its own: a signal to its group does not reach us. It dies with us."""
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
    return time.monotonic()  # noqa: TID251  a program of its own has no clock of ours


def _prctl(option: int, value: int | bytes) -> int:
    program = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # itself, which has libc in it
    call = _ctypes.dlsym(program, "prctl")
    done: int = _ctypes.call_function(call, (option, value, 0, 0, 0))
    return done
