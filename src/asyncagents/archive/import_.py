"""Import sessions from files, parents before children, each completely or not at all."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.archive.layout import (
    MOST_SESSION_BYTES,
    ArchiveReader,
    SessionFiles,
    find_sessions,
    find_storage_folders,
    json_files,
)
from asyncagents.archive.trouble import Trouble
from asyncagents.domain.id import SessionId
from asyncagents.domain.transfer.import_session import SessionJson, session_ids
from asyncagents.domain.transfer.legacy import Json, fill_missing
from asyncagents.domain.transfer.records import check_id
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.runtime.transfer import ImportedSession
from asyncagents.errors import InvalidInput, RequestError

ItemHandler: TypeAlias = Callable[[ImportedSession | Trouble], object]


class ImportResult(Struct, frozen=True):
    taken: tuple[ImportedSession, ...]
    troubles: tuple[Trouble, ...]


class ImportOptions(Struct, frozen=True, kw_only=True):
    """`trusted`: import permissions and webhooks, too; `directory`: replaces where the sessions work."""

    trusted: bool = False
    directory: str | None = None
    on_item: ItemHandler | None = None


class SessionHeader(Struct, frozen=True):
    """A session's id, parent and files, before its messages are read."""

    session_id: SessionId
    parent_id: SessionId | None
    files: SessionFiles


async def import_from(
    runtime: Runtime,
    path: str | Path,
    *,
    trusted: bool = False,
    directory: str | Path | None = None,
    heard: ItemHandler | None = None,
) -> ImportResult:
    """Import an export of asyncagents, the storage of OpenCode, or a file of `opencode export`.

    Sessions that exist already stay unchanged. One that cannot be imported is reported in `troubles`, and the
    others are still imported. `heard` is called for each session as soon as it is done.
    """
    source = Path(path)
    where = None if directory is None else str(await asyncio.to_thread(Path(directory).absolute))
    options = ImportOptions(trusted=trusted, directory=where, on_item=heard)
    if await asyncio.to_thread(_is_folder, source):
        return await _Importer(runtime, options).import_folder(source)
    return await _Importer(runtime, options).import_document(source)


class _Importer:
    def __init__(self, runtime: Runtime, options: ImportOptions) -> None:
        self._runtime = runtime
        self._options = options
        self._taken: list[ImportedSession] = []
        self._troubles: list[Trouble] = []

    async def import_document(self, file: Path) -> ImportResult:
        try:
            session_json = await asyncio.to_thread(_read_document, file)
            _, parent = session_ids(session_json.info)
            await self._import_session(session_json, parent)
        except RequestError as error:
            self._add_trouble(file, _error_text(error, file))
        return self._build_result()

    async def import_folder(self, path: Path) -> ImportResult:
        found = await asyncio.to_thread(
            lambda: [each for one in find_storage_folders(path) for each in find_sessions(one)]
        )
        if not found:
            raise InvalidInput(f"{path} holds no exported sessions: its folder `session` is empty")
        heads, unread = await asyncio.to_thread(_read_headers, found)
        for file, why in unread:
            self._add_trouble(file, why)
        done: set[SessionId] = set()
        for head in _parents_first(heads):
            if head.parent_id in heads and head.parent_id not in done:
                self._add_trouble(head.files.file, f"its parent {head.parent_id} was not imported")
                continue
            try:
                session = await asyncio.to_thread(_read_session, head.files)
                await self._import_session(session, head.parent_id)
                done.add(head.session_id)
            except RequestError as error:
                self._add_trouble(head.files.file, _error_text(error, head.files.file))
        for head in _headers_in_cycles(heads):
            self._add_trouble(head.files.file, "its parents form a cycle")
        return self._build_result()

    async def _import_session(self, session_json: SessionJson, parent_id: SessionId | None) -> None:
        transfer, trusted = self._runtime.transfer, self._options.trusted
        orphan = parent_id is not None and not await transfer.accepts_children(parent_id, trusted=trusted)
        taken = await transfer.import_session(
            session_json, trusted=trusted, directory=self._options.directory, orphan=orphan
        )
        self._taken.append(taken)
        self._report(taken)

    def _add_trouble(self, file: Path, why: str) -> None:
        trouble = Trouble(str(file), why)
        self._troubles.append(trouble)
        self._report(trouble)

    def _report(self, each: ImportedSession | Trouble) -> None:
        if self._options.on_item is not None:
            self._options.on_item(each)

    def _build_result(self) -> ImportResult:
        return ImportResult(tuple(self._taken), tuple(self._troubles))


def _read_headers(
    found: Sequence[SessionFiles],
) -> tuple[dict[SessionId, SessionHeader], list[tuple[Path, str]]]:
    """Read the headers, and why others cannot be read; a session that occurs twice is left out."""
    heads: dict[SessionId, SessionHeader] = {}
    files: dict[str, Path] = {}
    unread = []
    for session_files in found:
        try:
            if session_files.session_id in files:
                heads.pop(SessionId(session_files.session_id), None)
                raise InvalidInput(
                    f"session {session_files.session_id} is also in {files[session_files.session_id]}"
                )
            files[session_files.session_id] = session_files.file
            session_id, parent_id = session_ids(ArchiveReader().read_record(session_files.file, "session"))
            heads[session_id] = SessionHeader(session_id, parent_id, session_files)
        except RequestError as error:
            unread.append((session_files.file, _error_text(error, session_files.file)))
    return heads, unread


def _is_folder(path: Path) -> bool:
    if not path.exists():
        raise InvalidInput(f"{path} does not exist")
    return path.is_dir()


def _error_text(error: RequestError, file: Path) -> str:
    """Return the text of an error without the name of its file, which is reported separately."""
    return str(error).removeprefix(f"{file}: ")


def _parents_first(heads: dict[SessionId, SessionHeader]) -> Iterator[SessionHeader]:
    """Yield the headers, parents before children; those in a cycle of parents are left out."""
    children: dict[SessionId | None, list[SessionHeader]] = {}
    for head in heads.values():
        above = head.parent_id if head.parent_id in heads else None
        children.setdefault(above, []).append(head)
    waiting = children.get(None, [])
    while waiting:
        head = waiting.pop(0)
        yield head
        waiting += children.get(head.session_id, [])


def _headers_in_cycles(heads: dict[SessionId, SessionHeader]) -> list[SessionHeader]:
    reached = {head.session_id for head in _parents_first(heads)}
    return [head for head in heads.values() if head.session_id not in reached]


def _read_session(session_files: SessionFiles) -> SessionJson:
    reader = ArchiveReader()
    info = reader.read_record(session_files.file, "session")
    messages = [
        (
            fill_missing(message, sessionID=session_files.session_id),
            _read_parts(reader, session_files, file.stem),
        )
        for file in json_files(session_files.messages)
        for message in (reader.read_record(file, "message"),)
    ]
    todos = (
        reader.read_value(session_files.todos)
        if session_files.todos is not None and session_files.todos.exists()
        else None
    )
    return SessionJson(
        info=info, messages=messages, todos=todos, pending=_read_pending(reader, session_files, messages)
    )


def _read_parts(reader: ArchiveReader, session_files: SessionFiles, message_id: str) -> list[Json]:
    address = {"sessionID": session_files.session_id, "messageID": message_id}
    return [
        fill_missing(reader.read_record(file, "part"), **address)
        for file in json_files(session_files.parts / message_id)
    ]


def _read_pending(
    reader: ArchiveReader, session_files: SessionFiles, messages: Sequence[tuple[Json, Sequence[Json]]]
) -> dict[str, Json]:
    """Read the records of the calls that are still pending, if there are any."""
    if session_files.pending is None:
        return {}
    found = {}
    for _, parts in messages:
        for call_id in filter(None, (_pending_id(part) for part in parts)):
            file = session_files.pending / f"{check_id(call_id, 'call')}.json"
            if file.exists():
                found[call_id] = reader.read_record(file, "call")
    return found


def _pending_id(part: Json) -> str | None:
    match part:
        case {"state": {"status": "waiting_async", "pendingID": str(call_id)}}:
            return call_id
        case {"state": {"status": "pending" | "running"}, "asyncagents": {"call": {"id": str(call_id)}}}:
            return call_id
        case _:
            return None


def _read_document(file: Path) -> SessionJson:
    value = ArchiveReader().read_value(file, MOST_SESSION_BYTES)
    match value:
        case {"info": dict(info), "messages": list(messages)}:
            pending = value.get("pendingTools") or []
            if not isinstance(pending, list) or not all(isinstance(each, dict) for each in pending):
                raise InvalidInput("`pendingTools` must be a list of objects")
            records = {str(each.get("id")): each for each in pending}
            open_ids = {_pending_id(part) for message in messages for part in _parts_of(message)}
            open_records = {name: each for name, each in records.items() if name in open_ids}
            pairs = [(_info_of(message), _parts_of(message)) for message in messages]
            return SessionJson(info=info, messages=pairs, todos=value.get("todos"), pending=open_records)
        case _:
            raise InvalidInput("not an exported session: expected an object with `info` and `messages`")


def _info_of(message: Any) -> Json:
    match message:
        case {"info": dict(info)}:
            return info
        case _:
            raise InvalidInput("a message must be an object with `info` and `parts`")


def _parts_of(message: Any) -> list[Json]:
    match message:
        case {"parts": list(parts)} if all(isinstance(part, dict) for part in parts):
            return parts
        case _:
            raise InvalidInput("a message must be an object with `info` and `parts`")
