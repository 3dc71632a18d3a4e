"""Whether a database file still stands where it was opened: SQLite goes on writing to a deleted one."""

import os
from pathlib import Path

from asyncagents.errors import DatabaseGone


class Place:
    """A path, and which file stood there when it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _file_at(path)

    @property
    def is_gone(self) -> bool:
        """Of a file that only SQLite sees there is nothing to compare."""
        return self._file is not None and _file_at(self._path) != self._file

    def check(self) -> None:
        """Raises `DatabaseGone`."""
        if self.is_gone:
            what = "deleted" if _file_at(self._path) is None else "replaced by another"
            raise DatabaseGone(
                f"the database could not be written: {self._path} was {what} while it was open; "
                "put it back, and start again"
            )


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
