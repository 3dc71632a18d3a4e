"""Tells which owners are alive: a process locks a file of its own; the kernel releases it on its death."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from asyncagents.domain.id import OwnerId
from asyncagents.errors import StoreError

HOLD_TRIES = 20
HOLD_SECONDS = 0.02


class Owners(Protocol):
    @property
    def me(self) -> OwnerId: ...
    def alive(self, owner: OwnerId) -> bool: ...
    def close(self) -> None: ...


class FlockOwners:
    """Owners by `flock` on a file that is closed on exec; not by pid, which is reused, nor by record lock.

    Raises `FileExistsError` for a name whose lock file exists.
    """

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self.me = OwnerId(name)
        self._path = directory / f"{name}.lock"
        self._closed = False
        self._living_others: set[OwnerId] = set()
        self._fd = self._lock(directory / f"{name}.new")
        _open_owners.add(self)
        self._remove_dead()

    def _lock(self, fresh: Path) -> int:
        """Create and lock a file, then link it to its name: so a file found unlocked has a dead owner."""
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.link(fresh, self._path)
        except BaseException:
            os.close(fd)
            raise
        finally:
            fresh.unlink()
        return fd

    def _remove_dead(self) -> None:
        """Remove the lock files of dead owners."""
        for path in self._directory.glob("*.lock"):
            self.alive(OwnerId(path.stem))

    def alive(self, owner: OwnerId) -> bool:
        """Whether the owner lives; once False, always False: a name is never reused."""
        path = self._directory / f"{owner}.lock"
        held = is_lock_held(path)
        if not held:
            path.unlink(missing_ok=True)
            self._living_others.discard(owner)
        elif owner != self.me:
            self._living_others.add(owner)
        return held

    def find_deaths(self) -> bool:
        """Whether an owner has died that `alive` found alive before; a death is reported once."""
        return bool([owner for owner in sorted(self._living_others) if not self.alive(owner)])

    def release_in_child(self) -> None:
        """Close the lock in a forked child: an inherited copy must not outlive the owner."""
        if not self._closed:
            self._closed = True
            os.close(self._fd)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._path.unlink(missing_ok=True)
            os.close(self._fd)


@contextmanager
def check_writable(data: Path) -> Iterator[None]:
    """Raise `StoreError`, which names the data directory, if a file in it cannot be written."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"the data directory {data} cannot be written: {error.strerror or error}") from error


def is_lock_held(path: Path) -> bool:
    """Whether a living process holds this lock."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: other processes may be checking, too
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def hold_lock(path: Path) -> int | None:
    """Take a lock for as long as this process has the file open; None: another process holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(HOLD_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(HOLD_SECONDS)  # another process may only be checking it
        else:
            return fd
    os.close(fd)
    return None


_open_owners: WeakSet[FlockOwners] = WeakSet()


def _release_all_in_child() -> None:
    for owners in list(_open_owners):
        owners.release_in_child()


os.register_at_fork(after_in_child=_release_all_in_child)
