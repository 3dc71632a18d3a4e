"""Restore files as they were in a snapshot: inside the project, through no link, each by one rename."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from asyncagents.engine.workplace.snapshots import PutBack
from asyncagents.tools.file.atomic_write import put
from asyncagents.tools.file.fingerprint import Content, stamp
from asyncagents.tools.file.open_beneath import OpenFolder, best_open, make_by_walk, open_root
from asyncagents.tools.git.shadow_repository import MOST_BYTES, Leaf, Shadow

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_KEY = "snapshot"
TOO_LARGE = "it is too large to be kept, so it was left as it is"
CHANGED = "somebody has changed it since, so it was left as it is"
BLOCKED = "it cannot be put back"
FORGOTTEN = "its snapshot is not kept here any more, so it was left as it is"


class _Now(Struct, frozen=True):
    """What exists under a name: nothing, a file, a link, or something else."""

    content: Content | None = None
    target: str | None = None
    other: bool = False
    large: bool = False

    def is_like(self, leaf: Leaf | None) -> bool:
        if leaf is None:
            return self == _Now()
        if leaf.is_link:
            return self.target is not None and _blob(os.fsencode(self.target)) == leaf.blob
        return self.content is not None and _blob(self.content.data) == leaf.blob and self.runs == leaf.runs

    @property
    def runs(self) -> bool:
        return self.content is not None and bool(self.content.mode & 0o100)


class PuttingBack:
    """One restore of files from snapshots."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._root = str(shadow.root)
        self._open = best_open()
        self._trees: dict[str, dict[str, Leaf] | None] = {}
        self._left: list[str] = []

    def do(self, files: Sequence[PutBack]) -> tuple[str, ...]:
        """Restore files, removals first: a folder may be where a file was. Return what was left, and why."""
        writes: list[tuple[str, Leaf]] = []
        for each in files:
            name = os.path.relpath(each.file, self._root)
            if not _is_ours(name):
                self._left.append(f"{each.file}: {BLOCKED}")
                continue
            then = self._tree(each.to)
            leaf = then.get(name) if then is not None else None
            if then is None:
                self._left.append(f"{name}: {FORGOTTEN}")
            elif leaf is None:
                self._trying(name, partial(self._remove, name, each.was))
            else:
                writes.append((name, leaf))
        self._write_all(writes)
        return tuple(self._left)

    def _tree(self, hash: str) -> dict[str, Leaf] | None:
        """Return the files of a snapshot; None if it has expired or was taken elsewhere."""
        if hash not in self._trees:
            self._trees[hash] = self._shadow.leaves(hash) if self._shadow.has(hash) else None
        return self._trees[hash]

    def _was_like(self, now: _Now, was: str, name: str) -> bool:
        then = self._tree(was)
        return then is not None and now.is_like(then.get(name))

    def _write_all(self, writes: list[tuple[str, Leaf]]) -> None:
        by_blob: dict[str, list[tuple[str, Leaf]]] = {}
        for name, leaf in writes:
            by_blob.setdefault(leaf.blob, []).append((name, leaf))
        for blob, data in self._shadow.blobs(list(by_blob)):
            for name, leaf in by_blob[blob]:
                self._trying(name, partial(self._write, name, leaf, data))

    def _trying(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            self._left.append(f"{name}: {BLOCKED}: {error.strerror}")

    def _remove(self, name: str, was: str | None) -> None:
        with suppress(FileNotFoundError), self._beside(name) as (folder, last):
            now = _now(folder, last)
            if now.large:
                self._left.append(f"{name}: {TOO_LARGE}")
            elif now == _Now():
                return
            elif now.other or (was is not None and not self._was_like(now, was, name)):
                self._left.append(f"{name}: {CHANGED}")
            else:
                os.unlink(last, dir_fd=folder)
                self._prune(name)

    def _prune(self, name: str) -> None:
        """Remove the folders that are empty now, since git does not store folders."""
        parent = os.path.dirname(name)
        while parent:
            try:
                with self._beside(parent) as (folder, last):
                    os.rmdir(last, dir_fd=folder)
            except OSError:
                return
            parent = os.path.dirname(parent)

    def _write(self, name: str, leaf: Leaf, data: bytes) -> None:
        with self._beside(name, make=True) as (folder, last):
            now = _now(folder, last)
            if now.is_like(leaf):
                return
            if now.large or now.other:
                self._left.append(f"{name}: {TOO_LARGE if now.large else BLOCKED}")
            elif leaf.is_link:
                _link(folder, last, os.fsdecode(data))
            else:
                _file(folder, last, data, now, runs=leaf.runs)

    @contextmanager
    def _beside(self, name: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        *above, last = name.split("/")
        base = open_root(self._root)
        try:
            opening: OpenFolder = make_by_walk if make else self._open
            folder = opening(base, above)
        finally:
            os.close(base)
        try:
            yield folder, last
        finally:
            os.close(folder)


def _is_ours(name: str) -> bool:
    """Return whether a relative name is inside the project and not one of git's own files."""
    return not os.path.isabs(name) and {"..", ".", ".git"}.isdisjoint(name.lower().split("/"))


def _now(folder: int, name: str) -> _Now:
    try:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return _Now()
    if stat.S_ISLNK(about.st_mode):
        return _Now(target=os.readlink(name, dir_fd=folder))
    if not stat.S_ISREG(about.st_mode):
        return _Now(other=True)
    if about.st_size > MOST_BYTES:
        return _Now(large=True)
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
        about, data = os.fstat(file.fileno()), file.read(MOST_BYTES + 1)
    owner = about.st_uid, about.st_gid
    return _Now(content=Content(data, stamp(about, data), stat.S_IMODE(about.st_mode), owner))


def _blob(data: bytes) -> str:
    """Return git's id of a blob with this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _link(folder: int, name: str, target: str) -> None:
    beside = f".asyncagents-{hashlib.sha256(name.encode(errors='surrogateescape')).hexdigest()[:24]}.tmp"
    with suppress(FileNotFoundError):
        os.unlink(beside, dir_fd=folder)
    os.symlink(target, beside, dir_fd=folder)
    os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _file(folder: int, name: str, data: bytes, now: _Now, *, runs: bool) -> None:
    """Write a file and set its executable bits; the other mode bits stay."""
    before = now.content
    if before is not None:
        before = replace(before, mode=_mode(before.mode, runs=runs))
    elif now.target is not None:
        os.unlink(name, dir_fd=folder)
    put(folder, name, data, key=_KEY, before=before)
    if before is None and runs:
        with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
            os.fchmod(file.fileno(), _mode(stat.S_IMODE(os.fstat(file.fileno()).st_mode), runs=True))


def _mode(mode: int, *, runs: bool) -> int:
    """Copy the read bits to the execute bits, or clear the execute bits."""
    return mode | (mode & 0o444) >> 2 if runs else mode & ~0o111
