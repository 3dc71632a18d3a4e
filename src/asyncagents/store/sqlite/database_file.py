"""Checks that a database file is still the one that was opened: SQLite goes on writing to a deleted file."""

import os
from pathlib import Path
from typing import TypeAlias

from asyncagents.errors import DatabaseGone

LOGS = ("-wal", "-shm")
"""Suffixes of the files beside a database; SQLite removes them only with the last connection."""
_File: TypeAlias = tuple[int, int]


class DatabaseFile:
    """A path, and the identity of its files when they were opened: the database, its log and log index."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _file_at(path)
        self._is_filled = self._file is not None and path.stat().st_size > 0
        self._logs: dict[Path, _File] = {}

    @property
    def is_gone(self) -> bool:
        return self._file is not None and _file_at(self._path) != self._file

    def forget_logs(self) -> None:
        """Forget the log files after a connection was closed: the last one removes them."""
        self._logs.clear()

    def check(self) -> None:
        """Raise `DatabaseGone` if a file was deleted, replaced or emptied since it was opened."""
        if self._file is None:  # a file in a virtual file system: nothing to compare
            return
        _compare(self._path, self._file)
        if self._is_filled and not os.stat(self._path).st_size:
            raise _database_gone(self._path, "emptied")
        for suffix in LOGS:
            log = self._path.with_name(self._path.name + suffix)
            known = self._logs.get(log) or _file_at(log)
            if known is not None:
                self._logs[log] = known
                _compare(log, known)


def _compare(path: Path, known: _File) -> None:
    found = _file_at(path)
    if found != known:
        raise _database_gone(path, "deleted" if found is None else "replaced by another")


def _database_gone(path: Path, what: str) -> DatabaseGone:
    return DatabaseGone(
        f"the database could not be written: {path} was {what} while it was open; "
        "put it back, and restart the process"
    )


def _file_at(path: Path) -> _File | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
