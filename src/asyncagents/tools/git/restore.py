"""Restore files as they were in a snapshot: inside the project, through no link, each by one rename."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.engine.workplace.snapshots import FileToRestore
from asyncagents.tools.file.atomic_write import write_atomic
from asyncagents.tools.file.fingerprint import FileState, fingerprint
from asyncagents.tools.file.open_beneath import OpenFolder, choose_open_folder, make_by_walk, open_root
from asyncagents.tools.git.shadow_repository import MOST_BYTES, ShadowRepository, SnapshotFile

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KEY = "snapshot"
TOO_LARGE = "it is too large to be kept, so it was left as it is"
CHANGED = "somebody has changed it since, so it was left as it is"
BLOCKED = "it cannot be put back"
FORGOTTEN = "its snapshot is not kept here any more, so it was left as it is"


class _CurrentFile(Struct, frozen=True):
    """What exists under a name: nothing, a file, a link, or something else."""

    content: FileState | None = None
    target: str | None = None
    other: bool = False
    large: bool = False

    def matches(self, file: SnapshotFile | None) -> bool:
        if file is None:
            return self == _CurrentFile()
        if file.is_link:
            return self.target is not None and _blob_id(os.fsencode(self.target)) == file.blob
        return (
            self.content is not None
            and _blob_id(self.content.data) == file.blob
            and self.is_executable == file.is_executable
        )

    @property
    def is_executable(self) -> bool:
        return self.content is not None and bool(self.content.mode & 0o100)


class FileRestore:
    """One restore of files from snapshots."""

    def __init__(self, shadow: ShadowRepository) -> None:
        self._shadow = shadow
        self._root = str(shadow.root)
        self._open_folder = choose_open_folder()
        self._trees: dict[str, dict[str, SnapshotFile] | None] = {}
        self._not_restored: list[str] = []

    def restore_files(self, files: Sequence[FileToRestore]) -> tuple[str, ...]:
        """Restore files, removals first: a folder may be where a file was. Return what was left, and why."""
        writes: list[tuple[str, SnapshotFile]] = []
        for each in files:
            name = os.path.relpath(each.file, self._root)
            if not _is_restorable(name):
                self._not_restored.append(f"{each.file}: {BLOCKED}")
                continue
            then = self._files_of_tree(each.to)
            file = then.get(name) if then is not None else None
            if then is None:
                self._not_restored.append(f"{name}: {FORGOTTEN}")
            elif file is None:
                self._try(name, partial(self._remove, name, each.was))
            else:
                writes.append((name, file))
        self._write_all(writes)
        return tuple(self._not_restored)

    def _files_of_tree(self, hash: str) -> dict[str, SnapshotFile] | None:
        """Return the files of a snapshot; None if it has expired or was taken elsewhere."""
        if hash not in self._trees:
            self._trees[hash] = self._shadow.files(hash) if self._shadow.has_tree(hash) else None
        return self._trees[hash]

    def _matches_snapshot(self, now: _CurrentFile, was: str, name: str) -> bool:
        then = self._files_of_tree(was)
        return then is not None and now.matches(then.get(name))

    def _write_all(self, writes: list[tuple[str, SnapshotFile]]) -> None:
        by_blob: dict[str, list[tuple[str, SnapshotFile]]] = {}
        for name, file in writes:
            by_blob.setdefault(file.blob, []).append((name, file))
        for blob, data in self._shadow.read_blobs(list(by_blob)):
            for name, file in by_blob[blob]:
                self._try(name, partial(self._write, name, file, data))

    def _try(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            self._not_restored.append(f"{name}: {BLOCKED}: {error.strerror}")

    def _remove(self, name: str, was: str | None) -> None:
        with suppress(FileNotFoundError), self._open_parent(name) as (folder, last):
            now = _read_current(folder, last)
            if now.large:
                self._not_restored.append(f"{name}: {TOO_LARGE}")
            elif now == _CurrentFile():
                return
            elif now.other or (was is not None and not self._matches_snapshot(now, was, name)):
                self._not_restored.append(f"{name}: {CHANGED}")
            else:
                os.unlink(last, dir_fd=folder)
                self._remove_empty_folders(name)

    def _remove_empty_folders(self, name: str) -> None:
        """Remove the folders that are empty now, since git does not store folders."""
        parent = os.path.dirname(name)
        while parent:
            try:
                with self._open_parent(parent) as (folder, last):
                    os.rmdir(last, dir_fd=folder)
            except OSError:
                return
            parent = os.path.dirname(parent)

    def _write(self, name: str, file: SnapshotFile, data: bytes) -> None:
        with self._open_parent(name, make=True) as (folder, last):
            now = _read_current(folder, last)
            if now.matches(file):
                return
            if now.large or now.other:
                self._not_restored.append(f"{name}: {TOO_LARGE if now.large else BLOCKED}")
            elif file.is_link:
                _write_link(folder, last, os.fsdecode(data))
            else:
                _write_file(folder, last, data, now, runs=file.is_executable)

    @contextmanager
    def _open_parent(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        *above, last = name.split("/")
        base = open_root(self._root)
        try:
            opening: OpenFolder = make_by_walk if make else self._open_folder
            folder = opening(base, above)
        finally:
            os.close(base)
        try:
            yield folder, last
        finally:
            os.close(folder)


def _is_restorable(name: str) -> bool:
    """Return whether a relative name is inside the project and not one of git's own files."""
    return not os.path.isabs(name) and {"..", ".", ".git"}.isdisjoint(name.lower().split("/"))


def _read_current(folder: int, name: str) -> _CurrentFile:
    try:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return _CurrentFile()
    if stat.S_ISLNK(about.st_mode):
        return _CurrentFile(target=os.readlink(name, dir_fd=folder))
    if not stat.S_ISREG(about.st_mode):
        return _CurrentFile(other=True)
    if about.st_size > MOST_BYTES:
        return _CurrentFile(large=True)
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
        about, data = os.fstat(file.fileno()), file.read(MOST_BYTES + 1)
    owner = about.st_uid, about.st_gid
    return _CurrentFile(content=FileState(data, fingerprint(about, data), stat.S_IMODE(about.st_mode), owner))


def _blob_id(data: bytes) -> str:
    """Return git's id of a blob with this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _write_link(folder: int, name: str, target: str) -> None:
    beside = f".asyncagents-{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:24]}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(beside, dir_fd=folder)
    os.symlink(target, beside, dir_fd=folder)
    os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _write_file(folder: int, name: str, data: bytes, now: _CurrentFile, *, runs: bool) -> None:
    """Write a file and set its executable bits; the other mode bits stay."""
    before = now.content
    if before is not None:
        before = replace(before, mode=_set_executable(before.mode, runs=runs))
    elif now.target is not None:
        os.unlink(name, dir_fd=folder)
    write_atomic(folder, name, data, key=_KEY, before=before)
    if before is None and runs:
        with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
            os.fchmod(
                file.fileno(), _set_executable(stat.S_IMODE(os.fstat(file.fileno()).st_mode), runs=True)
            )


def _set_executable(mode: int, *, runs: bool) -> int:
    """Copy the read bits to the execute bits, or clear the execute bits."""
    return mode | (mode & 0o444) >> 2 if runs else mode & ~0o111
