"""List and read the files of one open folder by its handle; no link is followed."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from msgspec import Struct

MOST_BYTES = 10 * 1024 * 1024
"""Size limit of a file that this process reads."""
MOST_SEARCHED = 64 * 1024 * 1024
"""Size limit of a file that a search process reads."""
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class FolderEntry(Struct, frozen=True):
    name: str
    folder: bool
    link: bool = False


class TooLarge(OSError):
    def __init__(self, most: int) -> None:
        super().__init__(errno.EFBIG, os.strerror(errno.EFBIG))
        self.most = most


class FolderHandle:
    """A folder behind an open `handle`, which the caller closes. Methods raise `OSError`."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def entries(self) -> list[FolderEntry]:
        """List the entries, sorted by name."""
        opened = os.open(".", _LIST, dir_fd=self._handle)
        try:
            with os.scandir(opened) as entries:
                found = [_entry(entry) for entry in entries]
        finally:
            os.close(opened)
        return sorted(found, key=lambda entry: entry.name)

    def modified_time(self, name: str) -> int | None:
        """Return when a file was last modified, in ns; None: not a regular file, or missing."""
        with suppress(OSError):
            about = os.stat(name, dir_fd=self._handle, follow_symlinks=False)
            if stat.S_ISREG(about.st_mode):
                return about.st_mtime_ns
        return None

    def read(self, name: str, most: int = MOST_BYTES) -> tuple[bytes, os.stat_result]:
        """Read a regular file completely; return its bytes and its stat result at opening.

        Raises `TooLarge` for more than `most` bytes.
        """
        with self._open(name) as (opened, about):
            if about.st_size > most:
                raise TooLarge(most)
            return _read_all(opened, about.st_size, most), about

    def read_start(self, name: str, most: int) -> bytes:
        """Read at most the first `most` bytes of a regular file."""
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


def _read_all(opened: int, size: int, most: int) -> bytes:
    """Read to the end; usually one read, and a second one that returns nothing."""
    pieces, have, want = list[bytes](), 0, min(size, most) + 1
    while piece := os.read(opened, want):
        pieces.append(piece)
        have += len(piece)
        if have > most:
            raise TooLarge(most)
        want = min(max(size - have, 65_536), most - have) + 1
    return b"".join(pieces)


def _check_regular(about: os.stat_result) -> None:
    """Raise `OSError` if this is not a regular file.

    Called before opening, because opening a device can have effects, and after it, against races.
    """
    if stat.S_ISREG(about.st_mode):
        return
    kinds = {stat.S_IFDIR: errno.EISDIR, stat.S_IFLNK: errno.ELOOP}
    number = kinds.get(stat.S_IFMT(about.st_mode), errno.ENXIO)
    raise OSError(number, os.strerror(number))


def _entry(entry: os.DirEntry[str]) -> FolderEntry:
    return FolderEntry(entry.name, entry.is_dir(follow_symlinks=False), entry.is_symlink())
