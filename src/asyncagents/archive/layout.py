"""Find and read the files of exported sessions: our layout, OpenCode's storage, and its oldest layout."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.domain.conversation.codec import DECODE_ERRORS
from asyncagents.domain.transfer.legacy import fill_missing
from asyncagents.domain.transfer.records import check_id
from asyncagents.errors import InvalidInput

MOST_FILE_BYTES = 64 * 2**20
MOST_SESSION_BYTES = 512 * 2**20


class SessionFiles(Struct, frozen=True):
    """The files of one session."""

    session_id: str
    file: Path
    messages: Path
    parts: Path
    """Has a folder for each message."""
    todos: Path | None = None
    pending: Path | None = None


def find_storage_folders(path: Path) -> tuple[Path, ...]:
    """Find the storage folders at or below `path`; raise `InvalidInput` if there are none."""
    if (path / "session").is_dir():
        return (path,)
    if (path / "storage" / "session").is_dir():
        return (path / "storage",)
    nested = path / "project" if (path / "project").is_dir() else path
    found = tuple(sorted(each.parent for each in nested.glob("*/storage/session") if each.is_dir()))
    if not found:
        raise InvalidInput(_no_sessions_text(path))
    return found


def _no_sessions_text(path: Path) -> str:
    if any(path.glob("opencode*.db")):
        return (
            f"{path} holds OpenCode's database: write a session with `opencode export SESSION > one.json`, "
            "and import that file"
        )
    return f"{path} holds no exported sessions: there is no folder `session` in it"


def find_sessions(storage: Path) -> Iterator[SessionFiles]:
    """Yield the sessions of a storage folder; their ids are checked when they are read."""
    sessions = storage / "session"
    for project in sorted(each for each in sessions.iterdir() if each.is_dir()):
        _check_no_link(project)
        if project.name == "info":
            for file in json_files(project):
                messages, parts = sessions / "message" / file.stem, sessions / "part" / file.stem
                yield SessionFiles(file.stem, file, messages, parts)
        elif project.name not in ("message", "part"):
            for file in json_files(project):
                todos = storage / "todo" / file.name
                pending = storage / "pending_tool"
                yield SessionFiles(
                    file.stem, file, storage / "message" / file.stem, storage / "part", todos, pending
                )


def json_files(folder: Path) -> list[Path]:
    """List the JSON files of a folder, sorted by name."""
    if not folder.is_dir():
        return []
    _check_no_link(folder, folder.parent)
    try:
        found = list(folder.iterdir())
    except OSError as error:
        raise InvalidInput(f"{folder}: {error.strerror or error}") from error
    return sorted(each for each in found if each.suffix == ".json" and not each.name.startswith("."))


def _check_no_link(*folders: Path) -> None:
    """Raise `InvalidInput` for a symbolic link: its target is not part of the export."""
    for folder in folders:
        if folder.is_symlink():
            raise InvalidInput(f"{folder}: a symbolic link, which is not followed")


class ArchiveReader:
    """Reads the files of one session, up to a total size."""

    def __init__(self) -> None:
        self._bytes_left = MOST_SESSION_BYTES

    def read_object(self, file: Path) -> dict[str, Any]:
        value = self.read_value(file)
        if not isinstance(value, dict):
            raise InvalidInput(f"{file}: not a JSON object")
        return value

    def read_value(self, file: Path, most: int = MOST_FILE_BYTES) -> Any:
        raw = self._read_bytes(file, min(most, self._bytes_left))
        self._bytes_left -= len(raw)
        try:
            return msgspec.json.decode(raw)
        except DECODE_ERRORS as error:
            raise InvalidInput(f"{file}: {str(error) or type(error).__name__}") from error

    def read_record(self, file: Path, kind: str) -> dict[str, Any]:
        """Read an object whose id must equal its file's name; a missing id is filled in."""
        name = check_id(file.stem, kind)
        value = fill_missing(self.read_object(file), id=name)
        if value["id"] != name:
            raise InvalidInput(
                f"{file}: holds the {kind} {str(value['id'])[:140]!r}: the id and the file name must be equal"
            )
        return value

    def _read_bytes(self, file: Path, most: int) -> bytes:
        try:
            raw = _read_start(file, most)
        except OSError as error:
            raise InvalidInput(f"{file}: {error.strerror or error}") from error
        if len(raw) > most:
            raise InvalidInput(f"{file}: too large, at most {most:,} bytes of it may be read")
        return raw


def _read_start(file: Path, most: int) -> bytes:
    """Read up to `most` + 1 bytes, so that a larger file is detected; never block on a pipe."""
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InvalidInput(f"{file}: not a regular file")
        with os.fdopen(handle, "rb", closefd=False) as opened:
            return opened.read(most + 1)
    finally:
        os.close(handle)
