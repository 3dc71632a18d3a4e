"""One folder, opened once: what it holds is listed, looked at and read by its handle, no link followed."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

MOST_BYTES = 10 * 1024 * 1024
"""Of a file that is read in this process."""
MOST_SEARCHED = 64 * 1024 * 1024
"""Of one that is searched, which a process of its own does."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Entry(Struct, frozen=True):
    name: str
    folder: bool
    link: bool = False


class TooLarge(OSError):
    def __init__(self, most: int) -> None:
        super().__init__(errno.EFBIG, os.strerror(errno.EFBIG))
        self.most = most


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

    def read(self, name: str, most: int = MOST_BYTES) -> tuple[bytes, os.stat_result]:
        """The whole of a regular file, and how it was when it was opened."""
        with self._open(name) as (opened, about):
            if about.st_size > most:
                raise TooLarge(most)
            return _content(opened, about.st_size, most), about

    def read_start(self, name: str, most: int) -> bytes:
        """The first bytes of a regular file."""
        with self._open(name) as (opened, _):
            pieces, left = list[bytes](), most
            while left and (piece := os.read(opened, left)):
                pieces.append(piece)
                left -= len(piece)
            return b"".join(pieces)

    @contextmanager
    def _open(self, name: str) -> Iterator[tuple[int, os.stat_result]]:
        _check_regular(os.stat(name, dir_fd=self._handle, follow_symlinks=False))
        opened = os.open(name, _READ, dir_fd=self._handle)
        try:
            about = os.fstat(opened)
            _check_regular(about)
            yield opened, about
        finally:
            os.close(opened)


def _content(opened: int, size: int, most: int) -> bytes:
    """Mostly one read, and one that finds nothing more."""
    pieces, have, want = list[bytes](), 0, min(size, most) + 1
    while piece := os.read(opened, want):
        pieces.append(piece)
        have += len(piece)
        if have > most:
            raise TooLarge(most)
        want = min(max(size - have, 65_536), most - have) + 1
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
