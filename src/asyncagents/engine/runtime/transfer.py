"""Export sessions as JSON records, and import them."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.domain.call.pending_tool import PendingToolCall, pending_tool_call
from asyncagents.domain.clock import Clock
from asyncagents.domain.conversation.codec import DECODE_ERRORS
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import SessionId
from asyncagents.domain.shape import Shape, encode
from asyncagents.domain.transfer.import_session import ImportTerms, SessionJson, build_import
from asyncagents.domain.transfer.records import (
    MARK_KEY,
    ExportedMessage,
    ExportedPart,
    ExportedSession,
    ImportOutcome,
    PartMark,
    check_id,
)
from asyncagents.errors import Conflict, Damaged, NotFound
from asyncagents.store.store import Store

MESSAGES_PER_PIECE = 50
"""Messages held in memory at once."""
MAX_TRIES = 3
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TransferRecord(Struct, frozen=True):
    """One JSON value and its path: folders, then a name."""

    path: tuple[str, ...]
    body: bytes
    pending: PendingToolCall | None = None


class ImportedSession(Struct, frozen=True, kw_only=True):
    """A session that was imported, or that existed; `remarks`: what was not imported."""

    session: Session
    outcome: ImportOutcome
    remarks: tuple[str, ...] = ()


class Transfer:
    """Get it from a runtime: `runtime.transfer`. `export_to` and `import_from` write and read the files."""

    def __init__(self, *, store: Store, clock: Clock, pool: str) -> None:
        self._store = store.transfer
        self._control = store.control
        self._clock = clock
        self._pool = pool

    async def sessions(self, chosen: Sequence[SessionId] = ()) -> AsyncIterator[SessionId]:
        """Yield the ids of chosen sessions with all their descendants; or of all sessions."""
        seen: set[SessionId] = set()
        for each in chosen:
            for session_id in await self._store.tree(each):
                if session_id not in seen:
                    seen.add(session_id)
                    yield session_id
        after = ""
        while not chosen and (ids := await self._store.session_ids(after=after)):
            for session_id in ids:
                yield session_id
            after = ids[-1]

    async def records(self, session_id: SessionId) -> AsyncIterator[list[TransferRecord]]:
        """Yield all records of a session, in pieces. Raises `Conflict` at the end if it changed meanwhile."""
        change = await self._store.latest_revision(session_id)
        async for piece in self._pieces(session_id):
            yield piece
        if await self._store.latest_revision(session_id) != change:
            raise Conflict(f"session {session_id} is being worked on: export it when it rests")

    async def _pieces(self, session_id: SessionId) -> AsyncIterator[list[TransferRecord]]:
        """Yield the records of a session, itself last: where it exists, all that belongs to it does."""
        out = await self._store.session(session_id)
        after = ""
        while messages := await self._store.messages(session_id, after=after, limit=MESSAGES_PER_PIECE):
            yield [record for each in messages for record in _message_records(session_id, each)]
            after = messages[-1].sort_id
        yield list(_session_records(out))

    async def document(self, session_id: SessionId) -> bytes:
        """Return a session as one JSON document, as `opencode export` writes it, with our marks."""
        for _ in range(MAX_TRIES):
            change = await self._store.latest_revision(session_id)
            document = await self._document(session_id)
            if await self._store.latest_revision(session_id) == change:
                return msgspec.json.format(encode(document), indent=2)
        raise Conflict(f"session {session_id} is being worked on: export it when it rests")

    async def _document(self, session_id: SessionId) -> dict[str, Any]:
        out = await self._store.session(session_id)
        messages: list[dict[str, Any]] = []
        pending: list[PendingToolCall] = []
        after = ""
        while more := await self._store.messages(session_id, after=after, limit=MESSAGES_PER_PIECE):
            for each in more:
                parts = [msgspec.Raw(_part_json(part)) for part in each.parts]
                messages.append({"info": msgspec.Raw(_with_mark(each.raw, each.mark)), "parts": parts})
                pending += [
                    pending_tool_call(part.call) for part in each.parts if part.call and part.call.later
                ]
            after = more[-1].sort_id
        found: dict[str, Any] = {"info": msgspec.Raw(_with_mark(out.raw, out.mark)), "messages": messages}
        found["todos"] = msgspec.Raw(out.todos or b"[]")
        return {**found, "pendingTools": pending} if pending else found

    async def accepts_children(self, session_id: SessionId, *, trusted: bool) -> bool:
        """Whether an imported session may become a child of this one, which then gets its notices.

        A session that was run here takes only `trusted` imports: its id is no secret, and a foreign import
        could send text into it. An imported session that never ran takes any.
        """
        try:
            control = await self._control(session_id)
        except NotFound:
            return False
        return trusted or control.fence == 0

    async def import_session(
        self,
        session_json: SessionJson,
        *,
        trusted: bool = False,
        directory: str | None = None,
        orphan: bool = False,
    ) -> ImportedSession:
        """Import a session in one transaction. Raises `Conflict` if a different one has its id."""
        terms = ImportTerms(now=self._clock.now(), trusted=trusted, directory=directory, orphan=orphan)
        new = await asyncio.to_thread(build_import, session_json, terms)
        outcome = await self._store.import_session(new, pool=self._pool)
        return ImportedSession(
            session=new.info, outcome=outcome, remarks=new.remarks if outcome == "imported" else ()
        )


def _session_records(out: ExportedSession) -> Iterator[TransferRecord]:
    project = _decode_fields(out.raw).get("projectID", msgspec.Raw(b"null"))
    folder = check_id(msgspec.json.decode(project), "project")
    name = check_id(out.id, "session")
    yield TransferRecord(("session", folder, name), _with_mark(out.raw, out.mark))
    if out.todos is not None:
        yield TransferRecord(("todo", name), out.todos)


def _message_records(session_id: SessionId, out: ExportedMessage) -> Iterator[TransferRecord]:
    message = check_id(out.id, "message")
    yield TransferRecord(("message", session_id, message), _with_mark(out.raw, out.mark))
    for part in out.parts:
        yield TransferRecord(("part", message, check_id(part.id, "part")), _part_json(part))
        if part.call is not None and part.call.later is not None:
            pending = pending_tool_call(part.call)
            yield TransferRecord(("pending_tool", check_id(pending.id, "call")), encode(pending), pending)


def _part_json(out: ExportedPart) -> bytes:
    return out.raw if out.mark == PartMark() else _with_mark(out.raw, out.mark)


def _with_mark(raw: bytes, mark: Shape) -> bytes:
    return encode({**_decode_fields(raw), MARK_KEY: mark})


def _decode_fields(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _fields_decoder.decode(raw)
    except DECODE_ERRORS as error:
        raise Damaged(f"a stored row is not a JSON object: {error}") from error
