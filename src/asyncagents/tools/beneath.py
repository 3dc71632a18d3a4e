"""Folders opened by their real names only: no link is followed, so none can lead out while we look."""

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
"""From an open folder down through real folders; the result can be searched, not read."""

# A folder may be passable without being readable: a path handle is enough to go through.
_HANDLE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_STEP = _HANDLE | os.O_NOFOLLOW
_OPENAT2 = 437
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x02, 0x04, 0x08
_TRIES = 64
_MOST_LINKS = 40


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_root(path: str) -> int:
    """Where a walk begins: this one name is trusted."""
    return os.open(path, _HANDLE)


def open_by_kernel(base: int, parts: Sequence[str]) -> int:
    path = os.fsencode("/".join(parts) or ".")
    for _ in range(_TRIES):
        try:
            return _openat2(base, path)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EINTR):
                raise
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def open_by_walk(base: int, parts: Sequence[str]) -> int:
    """The same where the kernel cannot: one folder at a time, each from the handle of the one before."""
    return _walk(base, parts, _step)


def make_by_walk(base: int, parts: Sequence[str]) -> int:
    """What is missing is made."""
    return _walk(base, parts, _step_or_make)


def _walk(base: int, parts: Sequence[str], step: Callable[[int, str], int]) -> int:
    here = os.open(".", _STEP, dir_fd=base)
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
    return os.open(part, _STEP, dir_fd=here)


def _step_or_make(here: int, part: str) -> int:
    try:
        return _step(here, part)
    except FileNotFoundError:
        with suppress(FileExistsError):  # someone else was faster; whether it is a folder shows next
            os.mkdir(part, dir_fd=here)
        return _step(here, part)


def _openat2(base: int, path: bytes) -> int:
    how = _How(flags=_HANDLE, mode=0, resolve=_BENEATH | _NO_MAGICLINKS | _NO_SYMLINKS)
    opened = int(_syscall()(_OPENAT2, base, path, ctypes.byref(how), ctypes.sizeof(how)))
    if opened < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return opened


@cache
def _syscall() -> Callable[..., int]:
    """Found once: a walk asks for many thousand folders."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    return call


def kernel_can() -> bool:
    """Whether this kernel, and what guards it, lets us ask for a folder beneath another."""
    if sys.platform != "linux":
        return False
    root = open_root("/")
    try:
        os.close(open_by_kernel(root, ()))
    except OSError:
        return False
    finally:
        os.close(root)
    return True


def best_open() -> OpenFolder:
    return open_by_kernel if kernel_can() else open_by_walk


def real_path(path: str) -> str:
    """Where an absolute path leads now, by name. Only a hint: what is opened is this name, links refused."""
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
        target = _link("/" + "/".join(done), path)
        if target is None:
            continue
        links += 1
        if links > _MOST_LINKS:
            raise ToolError(f"{path} runs in a circle of symbolic links; use the file's real path.")
        done = [] if target.startswith("/") else done[:-1]
        todo.extend(target.split("/")[::-1])
    return "/" + "/".join(done)


def _link(here: str, path: str) -> str | None:
    """What a link says; None: it is none, or opening it will say why not."""
    if here == "/proc":
        raise ToolError(f"{path} leads through /proc, which the file tools do not open.")
    try:
        return os.readlink(here)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ToolError("That path or a name in it is too long; use a shorter one.") from error
        return None
