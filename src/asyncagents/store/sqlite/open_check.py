"""Checks a data directory before its database is opened, so that opening it does not discard data."""

from pathlib import Path

from asyncagents.errors import StoreError

_LOG = "-wal"
_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")
"""The first bytes of every SQLite write-ahead log."""
_TOKEN = "token"
"""The file that a server writes beside the database the first time it runs."""


class OpenCheck:
    """What a data directory holds before its database is opened: SQLite deletes a log that it cannot use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = path.stat().st_size if path.exists() else None
        self._log = path.with_name(path.name + _LOG)
        self._head = _head_of(self._log)

    def check(self) -> None:
        """Raise `StoreError` if opening the file would discard acknowledged writes."""
        if self._head.strip(b"\0") and not self._head.startswith(_MAGIC):
            raise StoreError(
                f"{self._log} is damaged: it is not a SQLite log, but should hold the last writes. Restore a "
                "backup of the data directory; or move this file away, to go on without those writes"
            )
        if self._size == 0 and (self._head or self._is_used):
            raise self._empty_error()

    def check_schema(self, version: int) -> None:
        """Raise `StoreError` if a database that was used before has no tables."""
        if version == 0 and self._size is not None and self._is_used:
            raise self._empty_error()

    @property
    def _is_used(self) -> bool:
        return self._path.with_name(_TOKEN).exists()

    def _empty_error(self) -> StoreError:
        return StoreError(
            f"{self._path} is empty, and its directory was used before: its sessions are lost or elsewhere. "
            "Restore a backup; or delete this file, to start with an empty store"
        )


def _head_of(log: Path) -> bytes:
    if not log.is_file():  # opening a pipe would block
        return b""
    with log.open("rb") as file:
        return file.read(32)
