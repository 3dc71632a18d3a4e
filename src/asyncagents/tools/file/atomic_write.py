"""Replace a file atomically: it holds the old content or the new, also after a power cut."""

import errno
import hashlib
import os
from contextlib import suppress

from asyncagents.tools.file.fingerprint import FileState, Fingerprint, fingerprint

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def write_atomic(
    folder: int, name: str, data: bytes, *, key: str, before: FileState | None, like: FileState | None = None
) -> Fingerprint:
    """Write a file over `before`, or a new one; raise `OSError` (ESTALE, EEXIST) if it changed meanwhile.

    `key` names the temporary file, so that a second run of the same call replaces what a crash left.
    """
    beside = f".asyncagents-{hashlib.sha256(f'{key}/{name}'.encode()).hexdigest()[:24]}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(beside, dir_fd=folder)
    try:
        about = _write_temporary(folder, beside, data, before or like)
        if before is None:
            _link_new(folder, beside, name)
        else:
            _rename_over(folder, beside, name, before.fingerprint)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)
    _sync_folder(folder)
    return fingerprint(about, data)


def _write_temporary(folder: int, beside: str, data: bytes, like: FileState | None) -> os.stat_result:
    opened = os.open(beside, _NEW, 0o666, dir_fd=folder)
    with os.fdopen(opened, "wb") as file:
        if like is not None:
            with suppress(PermissionError):  # only root may change the owner
                os.fchown(opened, *like.owner)
            os.fchmod(opened, like.mode)
        file.write(data)
        file.flush()
        os.fsync(opened)
        return os.fstat(opened)


def _link_new(folder: int, beside: str, name: str) -> None:
    try:
        os.link(beside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        _rename_new(folder, beside, name)


def _rename_new(folder: int, beside: str, name: str) -> None:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _rename_over(folder: int, beside: str, name: str, old: Fingerprint) -> None:
    if not old.matches(os.stat(name, dir_fd=folder, follow_symlinks=False)):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
    os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _sync_folder(folder: int) -> None:
    """Sync the folder, so that the new name survives a power cut; skipped if it cannot be read."""
    with suppress(OSError):
        opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
