"""Open folders by their real names: no link is followed, so none can lead out of the project."""

import ctypes
import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TypeAlias

from asyncagents.errors import ToolError

OpenFolder: TypeAlias = Callable[[int, Sequence[str]], int]
"""Opens a folder below an open one, through real folders; the handle can be searched, not read."""

# A folder may be searchable without being readable: an O_PATH handle suffices.
_PATH_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_STEP_FLAGS = _PATH_FLAGS | os.O_NOFOLLOW
_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_TRIES = 64
_MOST_LINKS = 40


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_root(path: str) -> int:
    """Open the folder where a walk starts; links in this path are followed."""
    return os.open(path, _PATH_FLAGS)


def open_by_openat2(base: int, parts: Sequence[str]) -> int:
    path = os.fsencode("/".join(parts) or ".")
    for _ in range(_TRIES):
        try:
            return _openat2(base, path)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EINTR):
                raise
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def open_by_walk(base: int, parts: Sequence[str]) -> int:
    """Open a folder without openat2: one folder at a time, each from its parent's handle."""
    return _walk(base, parts, _step)


def make_by_walk(base: int, parts: Sequence[str]) -> int:
    """Open a folder and create the missing folders on the way."""
    return _walk(base, parts, _step_or_make)


def _walk(base: int, parts: Sequence[str], step: Callable[[int, str], int]) -> int:
    here = os.open(".", _STEP_FLAGS, dir_fd=base)
    for part in parts:
        try:
            below = step(here, part)
        finally:
            os.close(here)
        here = below
    return here


def _step(here: int, part: str) -> int:
    if part in {"", ".", ".."} or "/" in part:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    return os.open(part, _STEP_FLAGS, dir_fd=here)


def _step_or_make(here: int, part: str) -> int:
    try:
        return _step(here, part)
    except FileNotFoundError:
        with suppress(FileExistsError):  # created meanwhile; the next step checks that it is a folder
            os.mkdir(part, dir_fd=here)
        return _step(here, part)


def _openat2(base: int, path: bytes) -> int:
    how = _OpenHow(flags=_PATH_FLAGS, mode=0, resolve=_BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)
    opened = int(_syscall()(_OPENAT2, base, path, ctypes.byref(how), ctypes.sizeof(how)))
    if opened < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return opened


@cache
def _syscall() -> Callable[..., int]:
    """Return libc's `syscall`; cached, because a walk opens thousands of folders."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    return call


def has_openat2() -> bool:
    """Return whether openat2 works here: the kernel has it and no seccomp filter blocks it."""
    if sys.platform != "linux":
        return False
    root = open_root("/")
    try:
        os.close(open_by_openat2(root, ()))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def choose_open_folder() -> OpenFolder:
    return open_by_openat2 if has_openat2() else open_by_walk


def real_path(path: str) -> str:
    """Resolve the links of an absolute path. Only a hint: the result is opened with links refused.

    Raises `ToolError` for a circle of links and for paths through /proc.
    """
    done: list[str] = []
    todo = path.split("/")[::-1]
    links = 0
    while todo:
        part = todo.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            done[-1:] = []
            continue
        done.append(part)
        target = _read_link("/" + "/".join(done), path)
        if target is None:
            continue
        links += 1
        if links > _MOST_LINKS:
            raise ToolError(f"{path} runs in a circle of symbolic links; use the file's real path.")
        done = [] if target.startswith("/") else done[:-1]
        todo.extend(target.split("/")[::-1])
    return "/" + "/".join(done)


def _read_link(here: str, path: str) -> str | None:
    """Return the target of a link; None: not a link, or unreadable (opening it reports why)."""
    if here == "/proc":
        raise ToolError(f"{path} leads through /proc, which the file tools do not open.")
    try:
        return os.readlink(here)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ToolError("That path or a name in it is too long; use a shorter one.") from error
        return None
