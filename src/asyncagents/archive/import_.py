"""Import sessions from files, parents before children, each completely or not at all."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from asyncagents.archive.layout import MOST_SESSION, Located, Reader, located, names, storages
from asyncagents.archive.trouble import Trouble
from asyncagents.domain.id import SessionId
from asyncagents.domain.transfer.import_session import Found, session_of
from asyncagents.domain.transfer.legacy import Json, filled
from asyncagents.domain.transfer.records import a_name
from asyncagents.engine.runtime.runtime import Runtime
from asyncagents.engine.runtime.transfer import Taken
from asyncagents.errors import InvalidInput, RequestError

Heard: TypeAlias = Callable[[Taken | Trouble], object]


class Imported(Struct, frozen=True):
    taken: tuple[Taken, ...]
    troubles: tuple[Trouble, ...]


class Choice(Struct, frozen=True, kw_only=True):
    """`trusted`: import permissions and webhooks, too; `directory`: replaces where the sessions work."""

    trusted: bool = False
    directory: str | None = None
    heard: Heard | None = None


class Head(Struct, frozen=True):
    """A session's id, parent and files, before its messages are read."""

    session_id: SessionId
    parent_id: SessionId | None
    place: Located


async def import_from(
    runtime: Runtime,
    path: str | Path,
    *,
    trusted: bool = False,
    directory: str | Path | None = None,
    heard: Heard | None = None,
) -> Imported:
    """Import an export of ours, OpenCode's storage, or the file that `opencode export` writes.

    Sessions that exist already stay unchanged. One that cannot be imported is reported in `troubles`, and the
    others are still imported. `heard` is called for each session as soon as it is done.
    """
    source = Path(path)
    where = None if directory is None else str(await asyncio.to_thread(Path(directory).absolute))
    choice = Choice(trusted=trusted, directory=where, heard=heard)
    if await asyncio.to_thread(_is_folder, source):
        return await _Importing(runtime, choice).folder(source)
    return await _Importing(runtime, choice).document(source)


class _Importing:
    def __init__(self, runtime: Runtime, choice: Choice) -> None:
        self._runtime = runtime
        self._choice = choice
        self._taken: list[Taken] = []
        self._troubles: list[Trouble] = []

    async def document(self, file: Path) -> Imported:
        try:
            found = await asyncio.to_thread(_document, file)
            _, parent = session_of(found.info)
            await self._take(found, parent)
        except RequestError as error:
            self._trouble(file, _about(error, file))
        return self._told()

    async def folder(self, path: Path) -> Imported:
        found = await asyncio.to_thread(lambda: [each for one in storages(path) for each in located(one)])
        if not found:
            raise InvalidInput(f"{path} holds no exported sessions: its folder `session` is empty")
        heads, unread = await asyncio.to_thread(_heads, found)
        for file, why in unread:
            self._trouble(file, why)
        done: set[SessionId] = set()
        for head in _parents_first(heads):
            if head.parent_id in heads and head.parent_id not in done:
                self._trouble(head.place.file, f"its parent {head.parent_id} was not imported")
                continue
            try:
                session = await asyncio.to_thread(_read, head.place)
                await self._take(session, head.parent_id)
                done.add(head.session_id)
            except RequestError as error:
                self._trouble(head.place.file, _about(error, head.place.file))
        for head in _unreachable(heads):
            self._trouble(head.place.file, "its parents form a cycle")
        return self._told()

    async def _take(self, found: Found, parent_id: SessionId | None) -> None:
        transfer, trusted = self._runtime.transfer, self._choice.trusted
        orphan = parent_id is not None and not await transfer.takes_children(parent_id, trusted=trusted)
        taken = await transfer.take(found, trusted=trusted, directory=self._choice.directory, orphan=orphan)
        self._taken.append(taken)
        self._hear(taken)

    def _trouble(self, file: Path, why: str) -> None:
        trouble = Trouble(str(file), why)
        self._troubles.append(trouble)
        self._hear(trouble)

    def _hear(self, each: Taken | Trouble) -> None:
        if self._choice.heard is not None:
            self._choice.heard(each)

    def _told(self) -> Imported:
        return Imported(tuple(self._taken), tuple(self._troubles))


def _heads(found: Sequence[Located]) -> tuple[dict[SessionId, Head], list[tuple[Path, str]]]:
    """Read the headers, and why others cannot be read; a session that occurs twice is left out."""
    heads: dict[SessionId, Head] = {}
    files: dict[str, Path] = {}
    unread = []
    for place in found:
        try:
            if place.session_id in files:
                heads.pop(SessionId(place.session_id), None)
                raise InvalidInput(f"session {place.session_id} is also in {files[place.session_id]}")
            files[place.session_id] = place.file
            session_id, parent_id = session_of(Reader().named(place.file, "session"))
            heads[session_id] = Head(session_id, parent_id, place)
        except RequestError as error:
            unread.append((place.file, _about(error, place.file)))
    return heads, unread


def _is_folder(path: Path) -> bool:
    if not path.exists():
        raise InvalidInput(f"{path} does not exist")
    return path.is_dir()


def _about(error: RequestError, file: Path) -> str:
    """Return the text of an error without the name of its file, which is reported separately."""
    return str(error).removeprefix(f"{file}: ")


def _parents_first(heads: dict[SessionId, Head]) -> Iterator[Head]:
    """Yield the headers, parents before children; those in a cycle of parents are left out."""
    children: dict[SessionId | None, list[Head]] = {}
    for head in heads.values():
        above = head.parent_id if head.parent_id in heads else None
        children.setdefault(above, []).append(head)
    waiting = children.get(None, [])
    while waiting:
        head = waiting.pop(0)
        yield head
        waiting += children.get(head.session_id, [])


def _unreachable(heads: dict[SessionId, Head]) -> list[Head]:
    reached = {head.session_id for head in _parents_first(heads)}
    return [head for head in heads.values() if head.session_id not in reached]


def _read(place: Located) -> Found:
    reader = Reader()
    info = reader.named(place.file, "session")
    messages = [
        (filled(message, sessionID=place.session_id), _parts(reader, place, file.stem))
        for file in names(place.messages)
        for message in (reader.named(file, "message"),)
    ]
    todos = reader.value(place.todos) if place.todos is not None and place.todos.exists() else None
    return Found(info=info, messages=messages, todos=todos, pending=_pending(reader, place, messages))


def _parts(reader: Reader, place: Located, message_id: str) -> list[Json]:
    address = {"sessionID": place.session_id, "messageID": message_id}
    return [filled(reader.named(file, "part"), **address) for file in names(place.parts / message_id)]


def _pending(
    reader: Reader, place: Located, messages: Sequence[tuple[Json, Sequence[Json]]]
) -> dict[str, Json]:
    """Read the records of the calls that are still pending, if there are any."""
    if place.pending is None:
        return {}
    found = {}
    for _, parts in messages:
        for call_id in filter(None, (_waits_for(part) for part in parts)):
            file = place.pending / f"{a_name(call_id, 'call')}.json"
            if file.exists():
                found[call_id] = reader.named(file, "call")
    return found


def _waits_for(part: Json) -> str | None:
    match part:
        case {"state": {"status": "waiting_async", "pendingID": str(call_id)}}:
            return call_id
        case {"state": {"status": "pending" | "running"}, "asyncagents": {"call": {"id": str(call_id)}}}:
            return call_id
        case _:
            return None


def _document(file: Path) -> Found:
    value = Reader().value(file, MOST_SESSION)
    match value:
        case {"info": dict(info), "messages": list(messages)}:
            pending = value.get("pendingTools") or []
            if not isinstance(pending, list) or not all(isinstance(each, dict) for each in pending):
                raise InvalidInput("`pendingTools` must be a list of objects")
            records = {str(each.get("id")): each for each in pending}
            open_ids = {_waits_for(part) for message in messages for part in _parts_of(message)}
            kept = {name: each for name, each in records.items() if name in open_ids}
            pairs = [(_info_of(message), _parts_of(message)) for message in messages]
            return Found(info=info, messages=pairs, todos=value.get("todos"), pending=kept)
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
