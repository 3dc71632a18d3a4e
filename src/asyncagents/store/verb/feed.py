"""The change feed: state, not a log. Rows keep their last revision; a reader catches up from any cursor."""

from collections.abc import Iterable

from msgspec import Struct

from asyncagents.domain.call import Answers, Call, Once, Reject
from asyncagents.domain.codec import decode_message, decode_session, decode_status, upcast
from asyncagents.domain.event import (
    Event,
    MessageUpdated,
    PartUpdated,
    PermissionAsked,
    PermissionReplied,
    PromptAnswered,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
    SessionDeleted,
    SessionIdle,
    SessionStatus,
    SessionUpdated,
)
from asyncagents.domain.id import MessageId, PermissionId, QuestionId, SessionId
from asyncagents.domain.status import Idle
from asyncagents.errors import InvalidInput
from asyncagents.store.row import decode_call, read_part
from asyncagents.store.tx import Tx

WINDOW = 500


class Changes(Struct, frozen=True):
    """What rows say now that changed in a range of revisions."""

    events: list[Event]
    sessions: list[SessionId]
    interrupted: list[SessionId]


class Feed(Struct, frozen=True):
    """`reset`: the cursor is too old, or another store's; read everything afresh, then follow `cursor`."""

    cursor: str
    events: tuple[Event, ...]
    reset: bool = False
    more: bool = False


async def cursor(tx: Tx) -> str:
    rev, epoch, _ = await _revision(tx)
    return f"{epoch}-0-{rev}"


async def feed(tx: Tx, after: str, *, window: int = WINDOW) -> Feed:
    """Events that bring a reader from a cursor to now, a bounded piece at a time."""
    rev, epoch, horizon = await _revision(tx)
    known_epoch, known_rev = _parse(after)
    if known_epoch != epoch or known_rev < horizon or known_rev > rev:
        return Feed(f"{epoch}-0-{rev}", (), reset=True)
    upto = min(rev, known_rev + window)
    found = await changes(tx, known_rev, upto)
    return Feed(f"{epoch}-0-{upto}", tuple(found.events), more=upto < rev)


async def forget(tx: Tx, upto: int) -> None:
    """Drop old tombstones; cursors below the horizon are told to start afresh."""
    await tx.all("forget_tombstones", upto)
    await tx.all("raise_horizon", upto)


async def revision(tx: Tx) -> int:
    return (await _revision(tx))[0]


async def _revision(tx: Tx) -> tuple[int, str, int]:
    row = await tx.one("revision")
    assert row is not None
    return row[0], row[1], row[2]


def _parse(text: str) -> tuple[str, int]:
    match text.split("-"):
        case [epoch, _, rev] if rev.isdigit() and len(rev) < 19:
            return epoch, int(rev)
        case _:
            raise InvalidInput(f"{text[:80]!r} is no cursor; take the one that came with the last event")


async def changes(tx: Tx, after: int, upto: int) -> Changes:
    infos: list[Event] = []
    ends: list[Event] = []
    ids: list[SessionId] = []
    interrupted: list[SessionId] = []
    for _, session, info, version, status, cancelled in await tx.all("changed_sessions", after, upto):
        session_id = SessionId(session)
        ids.append(session_id)
        if cancelled:
            interrupted.append(session_id)
        infos.append(SessionUpdated(session_id=session_id, info=decode_session(upcast(version, info))))
        ends.extend(_status(session_id, status))
    for _, session_id, info, version in await tx.all("changed_messages", after, upto):
        infos.append(MessageUpdated(session_id=session_id, info=decode_message(upcast(version, info))))
    for _, session_id, body, version in await tx.all("changed_parts", after, upto):
        infos.append(PartUpdated(session_id=session_id, part=read_part((body, version)), time=tx.now))
    for _, body, version in await tx.all("changed_calls", after, upto):
        infos.extend(_ask(decode_call((body, version))))
    for _, session_id, message_id, answer_id in await tx.all("changed_inputs", after, upto):
        ends.append(
            PromptAnswered(
                session_id=session_id, message_id=MessageId(message_id), answer_id=MessageId(answer_id)
            )
        )
    for _, _, gone, body in await tx.all("changed_tombstones", after, upto):
        ends.append(SessionDeleted(session_id=SessionId(gone), info=decode_session(body)))
        interrupted.append(SessionId(gone))
    return Changes(infos + ends, ids, interrupted)


def _status(session_id: SessionId, text: str) -> Iterable[Event]:
    status = decode_status(text.encode())
    yield SessionStatus(session_id=session_id, status=status)
    if isinstance(status, Idle):
        yield SessionIdle(session_id=session_id)


def _ask(call: Call) -> Iterable[Event]:
    """An ask that is open, or how it ended."""
    if call.open and call.open.ask:
        yield PermissionAsked(request=call.open.ask)
    elif call.open and call.open.question:
        yield QuestionAsked(request=call.open.question)
    elif call.ask_id is not None:
        yield _closed(call, call.ask_id)


def _closed(call: Call, ask_id: str) -> Event:
    is_question = ask_id.startswith("que")
    match call.reply:
        case Answers(answers):
            return QuestionReplied(session_id=call.session_id, request_id=QuestionId(ask_id), answers=answers)
        case Once():
            return PermissionReplied(
                session_id=call.session_id, request_id=PermissionId(ask_id), reply="once"
            )
        case Reject() | None if is_question:
            return QuestionRejected(session_id=call.session_id, request_id=QuestionId(ask_id))
        case Reject() | None:
            return PermissionReplied(
                session_id=call.session_id, request_id=PermissionId(ask_id), reply="reject"
            )
