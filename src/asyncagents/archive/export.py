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
from asyncagents.engine.runtime.transfer import TRIES, Record
from asyncagents.errors import Conflict, Damaged, InvalidInput, NotFound, RequestError

MANIFEST = "export.json"
"""Written last: an export without it is incomplete."""
FORMAT = 1


class Exported(Struct, frozen=True):
    sessions: int
    calls: int
    """How many calls of async tools."""
    troubles: tuple[Trouble, ...]


class Index:
    """Index of the exported pending calls, by session, status and deadline."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, str, int | None]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def add(self, call: PendingToolCall) -> None:
        self._found[call.id] = call.session_id, call.status, call.timeout

    def body(self) -> bytes:
        by_session: dict[str, list[str]] = {}
        by_status: dict[str, list[str]] = {}
        expiring = []
        for call_id, (session_id, status, timeout) in sorted(self._found.items()):
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


async def export_to(runtime: Runtime, directory: str | Path, sessions: Sequence[SessionId] = ()) -> Exported:
    """Write sessions with their descendants, or all sessions, into a new or empty directory.

    One that cannot be exported is reported in `troubles`, and the others are still exported.
    """
    folder = Path(directory)
    await asyncio.to_thread(_make_room, folder)
    index, count, troubles = Index(), 0, []
    async for session_id in runtime.transfer.sessions(sessions):
        try:
            await _export(runtime, folder, session_id, index)
            count += 1
        except NotFound:
            continue  # deleted meanwhile
        except (RequestError, Damaged) as error:
            troubles.append(Trouble(session_id, str(error)))
    await asyncio.to_thread(_finish, folder, index)
    return Exported(count, len(index), tuple(troubles))


async def _export(runtime: Runtime, folder: Path, session_id: SessionId, index: Index) -> None:
    """Export one session; if it changes meanwhile, start over and replace its files."""
    for left in reversed(range(TRIES)):
        found: list[PendingToolCall] = []
        try:
            async for piece in runtime.transfer.records(session_id):
                await asyncio.to_thread(_write_all, folder, piece)
                found += [record.pending for record in piece if record.pending is not None]
        except Conflict:
            if not left:
                raise
            continue
        for call in found:
            index.add(call)
        return


def _make_room(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        raise InvalidInput(f"{folder} holds another export: name a new or empty directory")
    if any(folder.iterdir()):
        raise InvalidInput(f"{folder} is not empty: name a new or empty directory")


def _write_all(folder: Path, records: Sequence[Record]) -> None:
    for record in records:
        *above, name = record.path
        _write(_below(folder, above), f"{name}.json", record.body)


def _below(folder: Path, names: Sequence[str]) -> Path:
    """Create nested folders that only the owner can access."""
    for name in names:
        folder = folder / name
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _finish(folder: Path, index: Index) -> None:
    _write(_below(folder, ["pending_tool"]), "index.json", index.body())
    _write(folder, MANIFEST, encode({"format": FORMAT}))


def _write(folder: Path, name: str, body: bytes) -> None:
    """Write a file atomically, readable only by its owner."""
    aside = folder / f".{name}.tmp"
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(body)
    aside.replace(folder / name)
