"""One folder, opened once: what it holds is listed, looked at and read by its handle, no link followed."""

import errno
import os
import stat
from contextlib import suppress

from msgspec import Struct

MOST_BYTES = 64 * 1024 * 1024
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Entry(Struct, frozen=True):
    name: str
    folder: bool
    link: bool = False


class Folder:
    """`handle` can be searched, and is closed by whoever opened it. Errors are those of the system."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def entries(self) -> list[Entry]:
        """By name."""
        opened = os.open(".", _LIST, dir_fd=self._handle)
        try:
            with os.scandir(opened) as entries:
                found = [_entry(entry) for entry in entries]
        finally:
            os.close(opened)
        return sorted(found, key=lambda entry: entry.name)

    def changed(self, name: str) -> int | None:
        """When a file was last changed, in nanoseconds; None: it is no regular file, or went away."""
        with suppress(OSError):
            about = os.stat(name, dir_fd=self._handle, follow_symlinks=False)
            if stat.S_ISREG(about.st_mode):
                return about.st_mtime_ns
        return None

    def read(self, name: str) -> tuple[bytes, os.stat_result]:
        """The whole of a regular file, and how it was when it was opened."""
        _check_regular(os.stat(name, dir_fd=self._handle, follow_symlinks=False))
        opened = os.open(name, _READ, dir_fd=self._handle)
        try:
            about = os.fstat(opened)
            _check_regular(about)
            return _content(opened, about.st_size), about
        finally:
            os.close(opened)


def _content(opened: int, size: int) -> bytes:
    """Mostly one read, and one that finds nothing more."""
    pieces, have, want = list[bytes](), 0, min(size, MOST_BYTES) + 1
    while piece := os.read(opened, want):
        pieces.append(piece)
        have += len(piece)
        if have > MOST_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        want = min(max(size - have, 65_536), MOST_BYTES - have) + 1
    return b"".join(pieces)


def _check_regular(about: os.stat_result) -> None:
    """Before it is opened, for opening a device can already do something; and after, to be sure."""
    if stat.S_ISREG(about.st_mode):
        return
    kinds = {stat.S_IFDIR: errno.EISDIR, stat.S_IFLNK: errno.ELOOP}
    number = kinds.get(stat.S_IFMT(about.st_mode), errno.ENXIO)
    raise OSError(number, os.strerror(number))


def _entry(entry: os.DirEntry[str]) -> Entry:
    return Entry(entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink())
