"""What the system offers to keep an agent's tools in their place."""

import ctypes
import errno
import shutil
import sys
from collections.abc import Iterator

from asyncagents.cli.doctor_report import Check

OPENAT2 = 437
"""The same number on every machine that Linux runs on, save one that nobody uses any more."""


def check_system() -> Iterator[Check]:
    if sys.platform != "linux":
        yield Check(
            "ok", "system", f"{sys.platform}: there is no bwrap and no openat2 here; all else is as on Linux"
        )
        return
    where = shutil.which("bwrap")
    if where:
        yield Check("ok", "bwrap", where)
    else:
        yield Check(
            "warn",
            "bwrap",
            "not installed: a command that an agent starts could leave processes behind",
            "install the package `bubblewrap`",
        )
    if has_openat2():
        yield Check("ok", "openat2", "the kernel keeps paths beneath the project")
    else:
        yield Check("warn", "openat2", "the kernel does not have it: paths are walked part by part instead")


def has_openat2() -> bool:
    """Asks with arguments that must be refused: only how they are refused matters."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(OPENAT2, -1, None, None, 0)
    return ctypes.get_errno() not in {errno.ENOSYS, errno.EPERM}
