"""Export sessions as JSON records, and import them."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from asyncagents.domain.call.pending_tool import PendingToolCall, pending_tool
from asyncagents.domain.conversation.codec import BROKEN
from asyncagents.domain.conversation.session import Session
from asyncagents.domain.id import SessionId
from asyncagents.domain.port import Clock
from asyncagents.domain.shape import Shape, encode
from asyncagents.domain.transfer.import_session import Found, Terms, bring
from asyncagents.domain.transfer.records import MARK, PartMark, a_name
from asyncagents.errors import Conflict, Damaged, NotFound
from asyncagents.store.store import Store
from asyncagents.store.verb.export import MessageOut, PartOut, SessionOut
from asyncagents.store.verb.import_ import Outcome

PIECE = 50
"""Messages held in memory at once."""
TRIES = 3
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Record(Struct, frozen=True):
    """One JSON value and its path: folders, then a name."""

    path: tuple[str, ...]
    body: bytes
    pending: PendingToolCall | None = None


class Taken(Struct, frozen=True, kw_only=True):
    """A session that was imported, or that existed; `remarks`: what was not imported."""

    session: Session
    outcome: Outcome
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

    async def records(self, session_id: SessionId) -> AsyncIterator[list[Record]]:
        """Yield all records of a session, in pieces. Raises `Conflict` at the end if it changed meanwhile."""
        change = await self._store.change(session_id)
        async for piece in self._pieces(session_id):
            yield piece
        if await self._store.change(session_id) != change:
            raise Conflict(f"session {session_id} is being worked on: export it when it rests")

    async def _pieces(self, session_id: SessionId) -> AsyncIterator[list[Record]]:
        """Yield the records of a session, itself last: where it exists, all that belongs to it does."""
        out = await self._store.session(session_id)
        after = ""
        while messages := await self._store.messages(session_id, after=after, limit=PIECE):
            yield [record for each in messages for record in _message_records(session_id, each)]
            after = messages[-1].sort_id
        yield list(_session_records(out))

    async def document(self, session_id: SessionId) -> bytes:
        """Return a session as one JSON document, as `opencode export` writes it, with our marks."""
        for _ in range(TRIES):
            change = await self._store.change(session_id)
            document = await self._document(session_id)
            if await self._store.change(session_id) == change:
                return msgspec.json.format(encode(document), indent=2)
        raise Conflict(f"session {session_id} is being worked on: export it when it rests")

    async def _document(self, session_id: SessionId) -> dict[str, Any]:
        out = await self._store.session(session_id)
        messages: list[dict[str, Any]] = []
        pending: list[PendingToolCall] = []
        after = ""
        while more := await self._store.messages(session_id, after=after, limit=PIECE):
            for each in more:
                parts = [msgspec.Raw(_part(part)) for part in each.parts]
                messages.append({"info": msgspec.Raw(_marked(each.raw, each.mark)), "parts": parts})
                pending += [pending_tool(part.call) for part in each.parts if part.call and part.call.later]
            after = more[-1].sort_id
        found: dict[str, Any] = {"info": msgspec.Raw(_marked(out.raw, out.mark)), "messages": messages}
        found["todos"] = msgspec.Raw(out.todos or b"[]")
        return {**found, "pendingTools": pending} if pending else found

    async def takes_children(self, session_id: SessionId, *, trusted: bool) -> bool:
        """Whether an imported session may become a child of this one, which then gets its notices.

        A session that was run here takes only `trusted` imports: its id is no secret, and a foreign import
        could send text into it. An imported session that never ran takes any.
        """
        try:
            control = await self._control(session_id)
        except NotFound:
            return False
        return trusted or control.fence == 0

    async def take(
        self, found: Found, *, trusted: bool = False, directory: str | None = None, orphan: bool = False
    ) -> Taken:
        """Import a session in one transaction. Raises `Conflict` if a different one has its id."""
        terms = Terms(now=self._clock.now(), trusted=trusted, directory=directory, orphan=orphan)
        new = await asyncio.to_thread(bring, found, terms)
        outcome = await self._store.bring(new, pool=self._pool)
        return Taken(session=new.info, outcome=outcome, remarks=new.remarks if outcome == "imported" else ())


def _session_records(out: SessionOut) -> Iterator[Record]:
    project = _fields_of(out.raw).get("projectID", msgspec.Raw(b"null"))
    folder = a_name(msgspec.json.decode(project), "project")
    name = a_name(out.id, "session")
    yield Record(("session", folder, name), _marked(out.raw, out.mark))
    if out.todos is not None:
        yield Record(("todo", name), out.todos)


def _message_records(session_id: SessionId, out: MessageOut) -> Iterator[Record]:
    message = a_name(out.id, "message")
    yield Record(("message", session_id, message), _marked(out.raw, out.mark))
    for part in out.parts:
        yield Record(("part", message, a_name(part.id, "part")), _part(part))
        if part.call is not None and part.call.later is not None:
            pending = pending_tool(part.call)
            yield Record(("pending_tool", a_name(pending.id, "call")), encode(pending), pending)


def _part(out: PartOut) -> bytes:
    return out.raw if out.mark == PartMark() else _marked(out.raw, out.mark)


def _marked(raw: bytes, mark: Shape) -> bytes:
    return encode({**_fields_of(raw), MARK: mark})


def _fields_of(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _fields.decode(raw)
    except BROKEN as error:
        raise Damaged(f"a stored row is not a JSON object: {error}") from error
