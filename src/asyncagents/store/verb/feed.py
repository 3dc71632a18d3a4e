"""The change feed: state, not a log. Rows keep their last revision; a reader catches up from any cursor."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal, Protocol

from msgspec import Struct

from asyncagents.domain.call.call import Always, Answers, Call, Once, Reject
from asyncagents.domain.conversation.codec import (
    Unreadable,
    decode_message,
    decode_session,
    decode_status,
    decoder,
    upcast,
)
from asyncagents.domain.conversation.failure import unknown_error
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import (
    Event,
    MessageRemoved,
    MessageUpdated,
    PartRemoved,
    PartUpdated,
    PermissionAsked,
    PermissionReplied,
    PromptAnswered,
    QuestionAsked,
    QuestionRejected,
    QuestionReplied,
    SessionDeleted,
    SessionError,
    SessionIdle,
    SessionStatus,
    SessionUpdated,
    TaskCleared,
    TodoUpdated,
    expiring_event,
    task_event,
)
from asyncagents.domain.feed import Feed, parse_cursor
from asyncagents.domain.id import MessageId, PermissionId, QuestionId, SessionId
from asyncagents.domain.task.view import background_task
from asyncagents.store.row import decode_call, read_part
from asyncagents.store.tx import Row, Tx
from asyncagents.store.verb.task import decode_task
from asyncagents.store.verb.todo import decode_todos

WINDOW = 500


class RowReader(Protocol):
    """Reads rows: a transaction, or rows that were fetched before."""

    @property
    def now(self) -> int: ...
    async def one(self, statement: str, *params: object) -> Row | None: ...
    async def all(self, statement: str, *params: object) -> list[Row]: ...


class FeedChanges(Struct, frozen=True):
    """The current state of rows that changed in a range of revisions."""

    events: list[Event]
    sessions: list[SessionId]
    interrupted: list[SessionId]
    due: list[int]
    posts: list[int]


async def cursor(tx: Tx) -> str:
    rev, epoch, _ = await _revision(tx)
    return f"{epoch}-0-{rev}"


async def read_feed(tx: Tx, after: str | None = None, *, window: int = WINDOW) -> Feed:
    """Read a bounded piece of the events that bring a reader from a cursor, or from nothing, to now."""
    rev, epoch, horizon = await _revision(tx)
    known_epoch, known_rev = parse_cursor(after) if after is not None else (epoch, 0)
    if known_epoch != epoch or 0 < known_rev < horizon or known_rev > rev:
        return Feed(f"{epoch}-0-{rev}", (), reset=True)
    upto = await _window_end(tx, known_rev, rev, window)
    found = await read_changes(tx, known_rev, upto)
    return Feed(f"{epoch}-0-{upto}", tuple(found.events), more=upto < rev)


async def _window_end(tx: Tx, after: int, now: int, window: int) -> int:
    """`window` revisions after the next one that has rows; revisions without rows are skipped."""
    if after + window >= now:
        return now
    row = await tx.one("next_change", after)
    return now if row is None or row[0] is None else min(now, row[0] - 1 + window)


async def forget_tombstones(tx: Tx, upto: int) -> None:
    """Delete old tombstones; readers with a cursor below the horizon get a reset."""
    upto = min(upto, await tx.rev())
    await tx.all("forget_tombstones", upto)
    await tx.all("raise_horizon", upto)


async def revision(tx: Tx) -> int:
    return (await _revision(tx))[0]


async def _revision(tx: Tx) -> tuple[int, str, int]:
    row = await tx.one("revision")
    assert row is not None
    return row[0], row[1], row[2]


async def read_changes(
    tx: RowReader, after: int, upto: int, *, whole: bool = True, most_arrived: int | None = None
) -> FeedChanges:
    """Read changed rows as events: deletions first, statuses and answers last.

    Answers to messages that were deleted since come before all: their callers still wait for them. Without
    `whole` only what runs depend on is read: sessions woken, ended or answered, and due times. Of a session
    that came in pieces and has more messages than `most_arrived`, only the session itself is read.
    """
    answers = await tx.all("changed_inputs", after, upto)
    events: list[Event] = _answer_events(answers, there=False)
    interrupted: list[SessionId] = []
    for _, kind, gone, body in await tx.all("changed_tombstones", after, upto):
        if kind != "session":
            events.append(_removed_event(kind, gone, body))
            continue
        interrupted.append(SessionId(gone))
        with _report_unreadable(events, SessionId(gone)):
            events.append(SessionDeleted(session_id=SessionId(gone), info=decode_session(body)))
    sessions = await tx.all("changed_sessions", after, upto)
    interrupted.extend(SessionId(row[1]) for row in sessions if row[5])
    if whole:
        await _add_arrivals(tx, events, (after, upto), most_arrived)
        await _add_content(tx, events, sessions, (after, upto))
    for _, session_id, _, _, status, _ in sessions if whole else ():
        with _report_unreadable(events, session_id):
            events.extend(_status_events(session_id, status))
    events += _answer_events(answers, there=True)
    kinds = "changed_due", "changed_backoffs", "changed_deadlines"
    due = [await tx.one(each, after, upto) for each in kinds]
    woken = [SessionId(row[1]) for row in sessions]
    posts = [row[0] for row in await tx.all("changed_deliveries", after, upto)]
    return FeedChanges(events, woken, interrupted, [row[0] for row in due if row is not None], posts)


def _answer_events(rows: list[Row], *, there: bool) -> list[Event]:
    return [
        PromptAnswered(session_id=session_id, message_id=MessageId(asked), answer_id=MessageId(answer))
        for session_id, asked, answer, is_there in rows
        if bool(is_there) == there
    ]


def _removed_event(kind: str, gone: str, body: bytes) -> Event:
    match kind:
        case "message":
            return decoder(MessageRemoved).decode(body)
        case "part":
            return decoder(PartRemoved).decode(body)
        case _:
            return TaskCleared(session_id=SessionId(gone))


def _add_messages(events: list[Event], rows: list[Row]) -> None:
    for _, session_id, info, version in rows:
        with _report_unreadable(events, session_id):
            events.append(MessageUpdated(session_id=session_id, info=decode_message(upcast(version, info))))


def _add_parts(tx: RowReader, events: list[Event], rows: list[Row]) -> None:
    for _, session_id, body, version in rows:
        with _report_unreadable(events, session_id):
            events.append(PartUpdated(session_id=session_id, part=read_part((body, version)), time=tx.now))


async def _add_arrivals(
    tx: RowReader, events: list[Event], between: tuple[int, int], most: int | None
) -> None:
    """Add all of a session that came in pieces: its rows may be older than the reader's cursor."""
    for session_id, messages in await tx.all("changed_arrivals", *between):
        if most is None or messages <= most:
            _add_messages(events, await tx.all("arrived_messages", session_id))
            _add_parts(tx, events, await tx.all("arrived_parts", session_id))


async def _add_content(
    tx: RowReader, events: list[Event], sessions: list[Row], between: tuple[int, int]
) -> None:
    for _, session_id, info, version, _, _ in sessions:
        with _report_unreadable(events, session_id):
            events.append(SessionUpdated(session_id=session_id, info=decode_session(upcast(version, info))))
    _add_messages(events, await tx.all("changed_messages", *between))
    _add_parts(tx, events, await tx.all("changed_parts", *between))
    for _, session_id, body in await tx.all("changed_todos", *between):
        with _report_unreadable(events, session_id):
            events.append(TodoUpdated(session_id=session_id, todos=decode_todos(body)))
    for _, body, version in await tx.all("changed_tasks", *between):
        with suppress(Unreadable):
            events.append(task_event(background_task(decode_task((body, version)), None)))
    for _, session_id, body, version in await tx.all("changed_calls", *between):
        with _report_unreadable(events, session_id):
            events.extend(_ask_events(decode_call((body, version))))


@contextmanager
def _report_unreadable(events: list[Event], session_id: SessionId) -> Iterator[None]:
    """Turn an unreadable row into an error event of its session; the feed goes on."""
    try:
        yield
    except Unreadable as error:
        events.append(SessionError(session_id=session_id, error=unknown_error(str(error))))


def _status_events(session_id: SessionId, text: str) -> Iterable[Event]:
    status = decode_status(text.encode())
    yield SessionStatus(session_id=session_id, status=status)
    if isinstance(status, Idle):
        yield SessionIdle(session_id=session_id)


def _ask_events(call: Call) -> Iterable[Event]:
    """Events of an open ask, or of how it was closed; a call that asks again was allowed before."""
    for ask_id in call.asked_before:
        if ask_id == call.ask_id:  # its answer was used: it is closed below
            continue
        yield PermissionReplied(session_id=call.session_id, request_id=PermissionId(ask_id), reply="once")
    if call.open and call.open.warned:
        yield expiring_event(call)
    if call.open and call.open.ask:
        yield PermissionAsked(request=call.open.ask)
    elif call.open and call.open.question:
        yield QuestionAsked(request=call.open.question)
    elif call.ask_id is not None:
        yield _closed_ask_event(call, call.ask_id)


def _closed_ask_event(call: Call, ask_id: str) -> Event:
    is_question = ask_id.startswith("que")
    match call.reply:
        case Answers(answers):
            return QuestionReplied(session_id=call.session_id, request_id=QuestionId(ask_id), answers=answers)
        case Once() | Always():
            reply: Literal["once", "always"] = "once" if isinstance(call.reply, Once) else "always"
            return PermissionReplied(session_id=call.session_id, request_id=PermissionId(ask_id), reply=reply)
        case Reject() | None if is_question:
            return QuestionRejected(session_id=call.session_id, request_id=QuestionId(ask_id))
        case Reject() | None:
            return PermissionReplied(
                session_id=call.session_id, request_id=PermissionId(ask_id), reply="reject"
            )
