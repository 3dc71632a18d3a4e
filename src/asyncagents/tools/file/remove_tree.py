"""Remove a temporary folder, also if commands made it deep, unreadable or full of links."""

import os
import stat
from contextlib import suppress
from itertools import count

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove a folder as far as possible. Follows no links, and works at any depth by moving folders up.

    No other process may use the folder meanwhile.
    """
    with suppress(OSError):
        top = os.open(path, _OPEN)
        try:
            _empty(top)
        finally:
            os.close(top)
        os.rmdir(path)


def _empty(top: int) -> None:
    """Empty a folder: move the subfolders of each folder in it up into `top`, then remove the folder."""
    taken = {*os.listdir(top)}
    free = (str(number) for number in count() if str(number) not in taken)
    failed: set[str] = set()
    while names := [name for name in os.listdir(top) if name not in failed]:
        for name in names:
            folders = _clear(top, name)
            for each in folders:
                with suppress(OSError):
                    os.rename(os.path.join(name, each), next(free), src_dir_fd=top, dst_dir_fd=top)
            try:
                os.rmdir(name, dir_fd=top)
            except FileNotFoundError:
                continue
            except OSError:
                failed.add(name)


def _clear(top: int, name: str) -> list[str]:
    """Remove a file, or the files of a folder; return the names of its subfolders."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        with suppress(OSError):
            os.unlink(name, dir_fd=top)
        return []
    folders = []
    with suppress(OSError):
        folder = _open_folder(top, name)
        try:
            for each in os.listdir(folder):
                if stat.S_ISDIR(os.stat(each, dir_fd=folder, follow_symlinks=False).st_mode):
                    folders.append(each)
                    continue
                with suppress(OSError):
                    os.unlink(each, dir_fd=folder)
        finally:
            os.close(folder)
    return folders


def _open_folder(top: int, name: str) -> int:
    """Open a folder; make it accessible first (mode 0700)."""
    try:
        place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=top)
    except AttributeError:
        return os.open(name, _OPEN, dir_fd=top)
    try:
        with suppress(OSError):
            os.chmod(f"/proc/self/fd/{place}", 0o700)
    finally:
        os.close(place)
    return os.open(name, _OPEN, dir_fd=top)
