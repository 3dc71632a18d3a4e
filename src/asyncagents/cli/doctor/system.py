"""The doctor's checks of the system: programs, kernel features and the environment of tools."""

import ctypes
import errno
import shutil
import sys
from collections.abc import Iterator

from msgspec import Struct

from asyncagents.cli.doctor.report import Check, Level
from asyncagents.config.child_environment import child_environment, withheld_names
from asyncagents.config.config import Config
from asyncagents.config.env import Environment

OPENAT2 = 437
"""The syscall number, equal on every Linux architecture but alpha."""


class Program(Struct, frozen=True):
    """A program that tools use if it is installed."""

    name: str
    without: str
    package: str
    level: Level = "warn"


PROGRAMS = (
    Program(
        "git", "file changes of agents cannot be undone, and they cannot read a project's history", "git"
    ),
    Program("rg", "searches are slower", "ripgrep", "ok"),
)


def check_programs() -> Iterator[Check]:
    for program in PROGRAMS:
        where = shutil.which(program.name)
        if where:
            yield Check("ok", program.name, where)
        else:
            without = f"not installed: {program.without}"
            yield Check(program.level, program.name, without, f"install the package `{program.package}`")


def check_system() -> Iterator[Check]:
    if sys.platform != "linux":
        yield Check(
            "ok", "system", f"{sys.platform}: bwrap and openat2 do not exist here; all else works as on Linux"
        )
        return
    where = shutil.which("bwrap")
    if where:
        yield Check("ok", "bwrap", where)
    else:
        yield Check(
            "ok",
            "bwrap",
            "not installed: a supervisor process kills what a command leaves behind; a namespace is safer",
            "install the package `bubblewrap`",
        )
    if has_openat2():
        yield Check("ok", "openat2", "the kernel keeps paths beneath the project")
    else:
        yield Check(
            "warn", "openat2", "the kernel lacks it: paths are walked one component at a time instead"
        )


def check_environment(environment: Environment, config: Config) -> Iterator[Check]:
    """List the names of the variables that commands of agents get, and those withheld."""
    passed = sorted(child_environment(environment, config))
    count = f"{len(passed)} of {len(environment.variables)} variables are passed on to commands"
    yield Check(
        "ok",
        "environment",
        f"{count}: {', '.join(passed)}",
        'name others in "pass_environment" of your asyncagents.json',
    )
    for name in withheld_names(environment, config):
        why = f"{name} of pass_environment is not passed on: it holds a key of a provider or of asyncagents"
        yield Check("warn", "environment", why, "give the command a variable and a key of its own")


def has_openat2() -> bool:
    """Return whether the kernel has openat2: call it with invalid arguments and check the errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(OPENAT2, -1, None, None, 0)
    return ctypes.get_errno() not in {errno.ENOSYS, errno.EPERM}
