"""What is left of a database that was used before, when its file holds nothing any more."""

from pathlib import Path

from asyncagents.errors import StoreError

_LOG = "-wal"
_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
"""How every write-ahead log of SQLite begins."""
_TOKEN = "token"
"""A server writes it beside the database the first time it runs."""


class Remains:
    """Look at a data directory before its database is opened: SQLite drops a log that it cannot use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = path.stat().st_size if path.exists() else None
        self._log = path.with_name(path.name + _LOG)
        self._head = _head_of(self._log)

    def check(self) -> None:
        """Raise `StoreError` if opening the file would throw away what was acknowledged."""
        if self._head.strip(b"\0") and not self._head.startswith(_MAGIC):
            raise StoreError(
                f"{self._log} is damaged: it is no log of SQLite, and holds what was written last. Restore a "
                "backup of the data directory; or move this file away, to go on without what it held"
            )
        if self._size == 0 and (self._head or self._is_used):
            raise self._emptied()

    def check_schema(self, version: int) -> None:
        """Raise `StoreError` if a database that was used before has no tables."""
        if version == 0 and self._size is not None and self._is_used:
            raise self._emptied()

    @property
    def _is_used(self) -> bool:
        return self._path.with_name(_TOKEN).exists()

    def _emptied(self) -> StoreError:
        return StoreError(
            f"{self._path} is empty, and its directory was used before: its sessions are lost or elsewhere. "
            "Restore a backup; or delete this file, to begin anew"
        )


def _head_of(log: Path) -> bytes:
    if not log.is_file():  # a pipe would be waited for
        return b""
    with log.open("rb") as file:
        return file.read(32)
