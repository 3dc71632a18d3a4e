"""Keeps the environment of this process from others: /proc shows it to every program of the same user."""

import ctypes
import os
import sys

PR_SET_DUMPABLE = 4
# Fields of /proc/self/stat behind the name of the program: where the environment begins and ends.
ENV_START, ENV_END = 47, 48


def conceal_environment() -> None:
    """Blank what /proc/<pid>/environ shows, and forbid other programs of this user to look into this process.

    For processes of our own alone: `os.environ` and `getenv` answer as before, but no debugger of the same
    user can attach, and there is no core dump. Root may still read memory; /proc is blank for root too.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    start, end = _find_block()
    if not 0 < start < end:
        return
    # libc makes a copy of each, elsewhere: time zone, locale and certificates are looked up there later on.
    for name, value in os.environb.items():
        os.putenv(name, value)
    ctypes.memset(start, 0, end - start)


def _find_block() -> tuple[int, int]:
    """Find the memory that the kernel copied the environment to when the program was started; 0: unknown."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0, 0
    return int(fields[ENV_START]), int(fields[ENV_END])
