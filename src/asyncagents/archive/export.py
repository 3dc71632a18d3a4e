"""Export sessions as JSON files below a directory, in the layout of OpenCode's storage."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from asyncagents.archive.trouble import Trouble
from asyncagents.domain.call.pending_tool import PendingToolCall
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import encode
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.runtime.transfer import MAX_TRIES, TransferRecord
from asyncagents.errors import Conflict, Damaged, InvalidInput, NotFound, RequestError

MANIFEST = "export.json"
"""Written last: an export without it is incomplete."""
FORMAT = 1


class ExportResult(Struct, frozen=True):
    sessions: int
    calls: int
    """How many calls of async tools."""
    troubles: tuple[Trouble, ...]


class PendingIndex:
    """Index of the exported pending calls, by session, status and deadline."""

    def __init__(self) -> None:
        self._calls: dict[str, tuple[str, str, int | None]] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: PendingToolCall) -> None:
        self._calls[call.id] = call.session_id, call.status, call.timeout

    def body(self) -> bytes:
        by_session: dict[str, list[str]] = {}
        by_status: dict[str, list[str]] = {}
        expiring = []
        for call_id, (session_id, status, timeout) in sorted(self._calls.items()):
            by_session.setdefault(session_id, []).append(call_id)
            by_status.setdefault(status, []).append(call_id)
            if status == "waiting" and timeout is not None:
                expiring.append((timeout, call_id))
        found = {
            "bySession": by_session,
            "byStatus": by_status,
            "byExpiration": [{"pendingID": each, "expiresAt": at} for at, each in sorted(expiring)],
        }
        return encode(found)


async def export_to(
    runtime: Runtime, directory: str | Path, sessions: Sequence[SessionId] = ()
) -> ExportResult:
    """Write sessions with their descendants, or all sessions, into a new or empty directory.

    A session that cannot be exported is reported in `troubles`, and the others are still exported.
    """
    folder = Path(directory)
    await asyncio.to_thread(_create_folder, folder)
    index, count, troubles = PendingIndex(), 0, []
    async for session_id in runtime.transfer.sessions(sessions):
        try:
            await _export_session(runtime, folder, session_id, index)
            count += 1
        except NotFound:
            continue  # deleted meanwhile
        except (RequestError, Damaged) as error:
            troubles.append(Trouble(session_id, str(error)))
    await asyncio.to_thread(_finish, folder, index)
    return ExportResult(count, len(index), tuple(troubles))


async def _export_session(runtime: Runtime, folder: Path, session_id: SessionId, index: PendingIndex) -> None:
    """Export one session; if it changes meanwhile, start over and replace its files."""
    for left in reversed(range(MAX_TRIES)):
        found: list[PendingToolCall] = []
        try:
            async for piece in runtime.transfer.records(session_id):
                await asyncio.to_thread(_write_records, folder, piece)
                found += [record.pending for record in piece if record.pending is not None]
        except Conflict:
            if not left:
                raise
            continue
        for call in found:
            index.add(call)
        return


def _create_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        raise InvalidInput(f"{folder} holds another export: name a new or empty directory")
    if any(folder.iterdir()):
        raise InvalidInput(f"{folder} is not empty: name a new or empty directory")


def _write_records(folder: Path, records: Sequence[TransferRecord]) -> None:
    for record in records:
        *above, name = record.path
        _write_file(_create_folders(folder, above), f"{name}.json", record.body)


def _create_folders(folder: Path, names: Sequence[str]) -> Path:
    """Create nested folders that only the owner can access."""
    for name in names:
        folder = folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _finish(folder: Path, index: PendingIndex) -> None:
    _write_file(_create_folders(folder, ["pending_tool"]), "index.json", index.body())
    _write_file(folder, MANIFEST, encode({"format": FORMAT}))


def _write_file(folder: Path, name: str, body: bytes) -> None:
    """Write a file atomically, readable only by its owner."""
    aside = folder / f".{name}.tmp"
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(body)
    aside.replace(folder / name)
