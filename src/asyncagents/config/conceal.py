"""Hide the environment of this process, which /proc shows to every program of the same user."""

import ctypes
import os
import sys

PR_SET_DUMPABLE = 4
# Indexes in /proc/self/stat after the program's name: start and end of the environment.
ENV_START, ENV_END = 47, 48


def conceal_environment() -> None:
    """Blank /proc/<pid>/environ, and forbid other programs of this user to inspect this process.

    Only for processes of asyncagents: `os.environ` and `getenv` work as before, but no debugger of the same
    user can attach, and there is no core dump. Root can still read memory; /proc is blank for root too.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    start, end = _find_block()
    if not 0 < start < end:
        return
    # putenv copies each variable: libc later reads time zone, locale and certificate paths from the copies.
    for name, value in os.environb.items():
        os.putenv(name, value)
    ctypes.memset(start, 0, end - start)


def _find_block() -> tuple[int, int]:
    """Find the memory of the initial environment; (0, 0) if unknown."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0, 0
    return int(fields[ENV_START]), int(fields[ENV_END])
