"""What the system offers to keep an agent's tools in their place, and what these find of the environment."""

import ctypes
import errno
import shutil
import sys
from collections.abc import Iterator

from msgspec import Struct

from asyncagents.cli.doctor_report import Check, Level
from asyncagents.config.child import child_environment, withheld_names
from asyncagents.config.config import Config
from asyncagents.config.env import Environment

OPENAT2 = 437
"""The same number on every machine that Linux runs on, save one that nobody uses any more."""


class Program(Struct, frozen=True):
    """One that tools use if it is there."""

    name: str
    without: str
    package: str
    level: Level = "warn"


PROGRAMS = (
    Program(
        "git", "what agents do to files cannot be undone, and they cannot look at a project's history", "git"
    ),
    Program("rg", "searches look at every file themselves, which takes longer", "ripgrep", "ok"),
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
            "ok", "system", f"{sys.platform}: there is no bwrap and no openat2 here; all else is as on Linux"
        )
        return
    where = shutil.which("bwrap")
    if where:
        yield Check("ok", "bwrap", where)
    else:
        yield Check(
            "ok",
            "bwrap",
            "not installed: a process of ours ends what a command leaves behind; a namespace would be surer",
            "install the package `bubblewrap` to have one",
        )
    if has_openat2():
        yield Check("ok", "openat2", "the kernel keeps paths beneath the project")
    else:
        yield Check("warn", "openat2", "the kernel does not have it: paths are walked part by part instead")


def check_environment(environment: Environment, config: Config) -> Iterator[Check]:
    """Say which variables the programs of agents get; values are not shown."""
    passed = sorted(child_environment(environment, config))
    count = f"{len(passed)} of {len(environment.variables)} variables are passed on to commands"
    yield Check(
        "ok",
        "environment",
        f"{count}: {', '.join(passed)}",
        'name others in "pass_environment" of your asyncagents.json',
    )
    for name in withheld_names(environment, config):
        why = f"{name} of pass_environment is not passed on: it holds a key of a provider or of ours"
        yield Check("warn", "environment", why, "give the command a variable and a key of its own")


def has_openat2() -> bool:
    """Asks with arguments that must be refused: only how they are refused matters."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(OPENAT2, -1, None, None, 0)
    return ctypes.get_errno() not in {errno.ENOSYS, errno.EPERM}
