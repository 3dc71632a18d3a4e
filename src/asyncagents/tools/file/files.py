"""Resolve paths and open files for all tools; only resolved paths are opened, and no link is followed."""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from pathlib import Path
from threading import RLock

from asyncagents.domain.agent.guarded import Guard
from asyncagents.errors import ToolError
from asyncagents.tools.file.atomic_write import write_atomic
from asyncagents.tools.file.fingerprint import FileState, Fingerprint, fingerprint
from asyncagents.tools.file.folder import MOST_BYTES, FolderEntry, FolderHandle, TooLarge
from asyncagents.tools.file.open_beneath import (
    OpenFolder,
    choose_open_folder,
    make_by_walk,
    open_root,
    real_path,
)
from asyncagents.tools.file.path import InsidePath, OutsidePath, ResolvedPath
from asyncagents.tools.file.thread_pool import Threads
from asyncagents.tools.guard.place_guard import UNGUARDED, PlaceGuard, could_make_repository

_LONGEST_PATH = 4_000
_LOCKS = 64
_ANYONE_WRITES = 0o222

_REASONS = {
    errno.ENOENT: "does not exist; check the path.",
    errno.ENOTDIR: "goes through something that is not a folder, or changed meanwhile; check the path.",
    errno.ELOOP: "changed into a symbolic link meanwhile; call the tool again.",
    errno.EXDEV: "leads out of its folder; use the file's real path.",
    errno.EACCES: "cannot be opened: permission denied by the operating system.",
    errno.EPERM: "cannot be changed: the operating system does not permit it.",
    errno.EROFS: "cannot be changed: the file system is read-only.",
    errno.EISDIR: "is a folder; name a file.",
    errno.ENAMETOOLONG: "is too long; use a shorter path.",
    errno.ENOSPC: "cannot be written: the disk is full.",
    errno.EAGAIN: "is being changed by someone else; call the tool again.",
}


class MissingFile(ToolError):
    """The file does not exist."""


class Files:
    """Files of a project, and files outside of it by their real paths, which ask for permission."""

    def __init__(
        self,
        root: Path,
        *,
        home: Path | None = None,
        open_folder: OpenFolder | None = None,
        guard: PlaceGuard = UNGUARDED,
    ) -> None:
        self.root = os.path.realpath(root)
        self.guard = guard
        self._home = str(home or Path.home())
        self._open_folder = open_folder or choose_open_folder()
        self.threads = Threads()
        self._locks = tuple(RLock() for _ in range(_LOCKS))
        self._repository_lock = RLock()

    def with_guard(self, guard: PlaceGuard) -> "Files":
        """Return a copy under another guard; both share their locks."""
        other = copy(self)
        other.guard = guard
        return other

    def resolve(self, path: str, directory: str = "") -> ResolvedPath:
        """Resolve a path; a relative one starts in `directory`, else in the project.

        Raises `ToolError` for invalid paths and sealed places.
        """
        _check_path(path)
        if path == "~" or path.startswith("~/"):
            path = self._home + path[1:]
        real = real_path(os.path.join(self.root, directory, path))
        _check_path(real)
        guard = self.guard.guard_at(real)
        if guard is not None and guard.level == "sealed":
            raise _sealed_error(real)
        parts = tuple(part for part in real.split("/") if part)
        top = tuple(part for part in self.root.split("/") if part)
        if parts[: len(top)] == top:
            return InsidePath(self.root, parts[len(top) :])
        return OutsidePath(parts)

    def guards(self, places: Sequence[ResolvedPath]) -> list[Guard | None]:
        """Return the guard of each file, for files that are changed together."""
        paths = [place.path for place in places]
        return [self.guard.guard_at(path, paths) for path in paths]

    @contextmanager
    def lock_guards(
        self, places: Sequence[ResolvedPath], *, unguarded: Sequence[ResolvedPath]
    ) -> Iterator[None]:
        """Hold the lock while `places` are changed; raise `ToolError` if one of `unguarded` has a guard now.

        Other calls could make a git repository of a folder meanwhile: writes that could do so wait.
        """
        with ExitStack() as held:
            if any(could_make_repository(place.path) for place in places):
                held.enter_context(self._repository_lock)
            for place, guard in zip(unguarded, self.guards(unguarded), strict=True):
                if guard is not None:
                    raise ToolError(
                        f"{place.name} became a guarded place meanwhile ({guard.why}), so nothing was "
                        "written: call the tool again, and a person is asked."
                    )
            yield

    def is_folder(self, place: ResolvedPath) -> bool:
        """Return whether the path is a folder; False if it is missing."""
        try:
            with self._folder(place, place.parts):
                return True
        except ToolError:
            return False

    def read(self, place: ResolvedPath, most: int = MOST_BYTES) -> FileState:
        """Read a regular file completely; raise `MissingFile` if there is none."""
        self._refuse_sealed(place)
        with self._parent(place) as (folder, name):
            data, about = FolderHandle(folder).read(name, most)
        owner = about.st_uid, about.st_gid
        return FileState(data, fingerprint(about, data), stat.S_IMODE(about.st_mode), owner)

    @contextmanager
    def open_folder(self, place: ResolvedPath) -> Iterator[FolderHandle]:
        """Open a folder for repeated reads."""
        with self._folder(place, place.parts) as handle:
            yield FolderHandle(handle)

    def list_folder(self, place: ResolvedPath) -> tuple[FolderEntry, ...]:
        """List a folder, sorted by name."""
        self._refuse_sealed(place)
        with self.open_folder(place) as folder:
            return tuple(folder.entries())

    def modified_times(self, place: ResolvedPath, names: Iterable[str]) -> dict[str, int]:
        """Return when files of a folder were last modified, in ns; only regular files are included."""
        with self.open_folder(place) as folder:
            seen = ((name, folder.modified_time(name)) for name in names)
            return {name: changed for name, changed in seen if changed is not None}

    @contextmanager
    def lock(self, places: Iterable[ResolvedPath]) -> Iterator[None]:
        """Lock these files against other writers of this process."""
        with ExitStack() as held:
            for number in sorted({hash(place.path) % _LOCKS for place in places}):
                held.enter_context(self._locks[number])
            yield

    def rewrite(
        self,
        place: ResolvedPath,
        key: str,
        change: Callable[[FileState | None], bytes],
        *,
        like: FileState | None = None,
    ) -> Fingerprint:
        """Read a file, build its new content and replace it, locked; `change` gets None for a new file.

        The replacement is atomic, and raises `ToolError` if another process wrote the file meanwhile.
        A new file gets the mode and owner of `like`.
        """
        with self.lock([place]):
            before = self.read_or_none(place)
            data = change(before)
            if before is not None and before.data == data:
                return before.fingerprint
            if before is not None and not before.mode & _ANYONE_WRITES:
                raise ToolError(f"{place.name} is read-only; change its mode first if it is meant to change.")
            with self._parent(place, make=True) as (folder, name):
                return write_atomic(folder, name, data, key=key, before=before, like=like)

    def remove(self, place: ResolvedPath, before: Fingerprint) -> None:
        """Delete a file that still matches `before`; else raise `OSError` (ESTALE)."""
        with self.lock([place]), self._parent(place) as (folder, name):
            if not before.matches(os.stat(name, dir_fd=folder, follow_symlinks=False)):
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            os.unlink(name, dir_fd=folder)

    def remove_folder(self, place: ResolvedPath) -> None:
        """Delete an empty folder."""
        with self._parent(place) as (folder, name):
            os.rmdir(name, dir_fd=folder)

    def read_or_none(self, place: ResolvedPath) -> FileState | None:
        try:
            return self.read(place)
        except MissingFile:
            return None

    def _refuse_sealed(self, place: ResolvedPath) -> None:
        """Raise `ToolError` for a sealed place; walks reach paths that `resolve` has not checked."""
        if self.guard.is_sealed(place.path):
            raise _sealed_error(place.path)

    @contextmanager
    def _parent(self, place: ResolvedPath, *, make: bool = False) -> Iterator[tuple[int, str]]:
        if not place.parts:
            raise ToolError(f"{place.path} is a folder; name a file.")
        with self._folder(place, place.parts[:-1], make=make) as folder:
            yield folder, place.parts[-1]

    @contextmanager
    def _folder(self, place: ResolvedPath, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
        try:
            base = open_root(place.root)
            try:
                folder = (make_by_walk if make else self._open_folder)(base, parts)
            finally:
                os.close(base)
            try:
                yield folder
            finally:
                os.close(folder)
        except OSError as error:
            raise _tool_error(place, error) from error


def _sealed_error(path: str) -> ToolError:
    return ToolError(
        f"{path} is in the data folder of asyncagents, which no tool opens; only files that an output names "
        "as the place of its whole text can be read."
    )


def _check_path(path: str) -> None:
    if not path:
        raise ToolError("The path is empty; name a file or folder.")
    if "\0" in path:
        raise ToolError("The path has a NUL character in it; remove it.")
    try:
        size = len(path.encode())
    except UnicodeEncodeError as error:
        raise ToolError("The path is not valid Unicode; use another name.") from error
    if size > _LONGEST_PATH:
        raise ToolError(f"The path has {size} bytes, more than {_LONGEST_PATH}; use a shorter one.")


def _tool_error(place: ResolvedPath, error: OSError) -> ToolError:
    match error.errno:
        case errno.ENOENT:
            return MissingFile(f"{place.name} does not exist; check the path.")
        case errno.ENXIO:
            return ToolError(f"{place.name} is a device, pipe or socket; the file tools open only files.")
        case errno.EFBIG:
            most = (error.most if isinstance(error, TooLarge) else MOST_BYTES) // (1024 * 1024)
            return ToolError(
                f"{place.name} is larger than {most} MiB; look at parts of it, or change it, by a command."
            )
        case errno.ESTALE | errno.EEXIST:
            return ToolError(f"{place.name} was changed meanwhile, nothing was written; read it again first.")
        case number:
            reason = _REASONS.get(number or 0, f"cannot be used: {error.strerror or 'unknown failure'}.")
            return ToolError(f"{place.name} {reason}")
