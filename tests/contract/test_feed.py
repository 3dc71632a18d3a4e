"""The change feed: from any cursor, in pieces of any size, a reader ends where the store is."""

import random
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest

from asyncagents.domain.call.call import Once
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.session import NewSession
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
    SessionCreated,
    SessionDeleted,
    SessionIdle,
    SessionStatus,
    SessionUpdated,
)
from asyncagents.domain.feed import Feed
from asyncagents.domain.id import MessageId
from asyncagents.errors import InvalidInput, NotFound
from asyncagents.store.store import Store
from asyncagents.store.verb import feed
from asyncagents.store.verb.read import InputRow
from tests.support.soak import some_of
from tests.support.store.lab import POOL, PROJECT, Lab, ask_id, completed_result
from tests.support.store.walk import TalkWalk, Walk

TALKS = 1000
"""From this seed on, people copy conversations and take things out of them."""


class Reader:
    """What a client knows who only applies events."""

    def __init__(self, cursor: str) -> None:
        self.cursor = cursor
        self.sessions: dict[str, Any] = {}
        self.messages: dict[str, Any] = {}
        self.parts: dict[str, Any] = {}
        self.statuses: dict[str, Any] = {}
        self.asks: dict[str, str] = {}
        self.answers: dict[str, tuple[str, str]] = {}

    def apply(self, events: Iterable[Event]) -> None:
        for event in events:
            self._apply(event)

    def _apply(self, event: Event) -> None:  # noqa: C901  a table
        match event:
            case SessionCreated(info=info) | SessionUpdated(info=info):
                self.sessions[info.id] = info
            case SessionDeleted(session_id=gone):
                self._forget(gone)
            case SessionStatus(session_id=session_id, status=status):
                self.statuses[session_id] = status
            case SessionIdle(session_id=session_id):
                assert self.statuses[session_id] == Idle()
            case MessageUpdated(info=info):
                self.messages[info.id] = info
            case PartUpdated(part=part):
                self.parts[str(part.id)] = part
            case MessageRemoved(message_id=message_id):
                self.messages.pop(message_id, None)  # it may have come and gone meanwhile
                self.parts = {key: part for key, part in self.parts.items() if part.message_id != message_id}
                self.answers.pop(message_id, None)
            case PartRemoved(part_id=part_id):
                self.parts.pop(part_id, None)
            case PermissionAsked(request=request) | QuestionAsked(request=request):
                self.asks[request.id] = request.session_id
            case (
                PermissionReplied(request_id=ask)
                | QuestionReplied(request_id=ask)
                | QuestionRejected(request_id=ask)
            ):
                self.asks.pop(ask, None)
            case PromptAnswered(session_id=session_id, message_id=message_id, answer_id=answer_id):
                self.answers[message_id] = (session_id, answer_id)
            case _:
                pass

    def _forget(self, gone: str) -> None:
        self.sessions.pop(gone, None)
        self.statuses.pop(gone, None)
        self.messages = {key: info for key, info in self.messages.items() if info.session_id != gone}
        self.parts = {key: part for key, part in self.parts.items() if part.session_id != gone}
        self.asks = {key: owner for key, owner in self.asks.items() if owner != gone}
        self.answers = {key: answer for key, answer in self.answers.items() if answer[0] != gone}

    def knows(self) -> dict[str, Any]:
        return {
            "sessions": self.sessions,
            "messages": self.messages,
            "parts": self.parts,
            "statuses": {key: status for key, status in self.statuses.items() if status != Idle()},
            "asks": self.asks,
            "answers": self.answers,
        }


async def _truth(lab: Lab) -> dict[str, Any]:
    """The same, read afresh."""
    store = lab.store
    sessions = await store.sessions(PROJECT, limit=1_000)
    entries = [entry for info in sessions for entry in await store.messages(info.id)]
    found = [await _input(store, e.info.id) for e in entries if isinstance(e.info, UserMessage)]
    inputs = [each for each in found if each is not None]
    calls = [call for info in sessions for call in await store.open_calls(info.id)]
    return {
        "sessions": {info.id: info for info in sessions},
        "messages": {entry.info.id: entry.info for entry in entries},
        "parts": {part.id: part for entry in entries for part in entry.parts},
        "statuses": dict(await store.statuses()),
        "asks": {str(call.ask_id): call.session_id for call in calls if call.blocks_session},
        "answers": {row.message_id: (row.session_id, row.answer_id) for row in inputs if row.answer_id},
    }


async def _input(store: Store, message_id: MessageId) -> InputRow | None:
    """What was copied from another session was never sent to this one."""
    with suppress(NotFound):
        return await store.input(message_id)
    return None


async def _piece(lab: Lab, cursor: str, window: int) -> Feed:
    return await lab.database.read(lambda tx: feed.read_feed(tx, cursor, window=window))


async def _catch_up(lab: Lab, reader: Reader, window: int, *, stop_early: bool = False) -> None:
    more = True
    while more:
        piece = await _piece(lab, reader.cursor, window)
        assert not piece.reset
        reader.apply(piece.events)
        reader.cursor, more = piece.cursor, piece.more and not stop_early


@pytest.mark.spec("X-11", "C-06")
@pytest.mark.parametrize("seed", [*some_of(range(15), 5), *some_of(range(TALKS, TALKS + 15), 5)])
async def test_readers_from_any_cursor_end_with_the_state_of_the_store(lab: Lab, seed: int) -> None:
    rng = random.Random(seed)
    live = Reader("")
    lab.store.listen(lambda commit: live.apply(commit.events))
    start = await lab.store.cursor()
    steady, seldom = Reader(start), Reader(start)
    walk = Walk(lab, seed) if seed < TALKS else TalkWalk(lab, seed)
    for _ in range(12):
        await walk.go(15)
        await _catch_up(lab, steady, rng.choice([1, 2, 7, 500]))
        await _catch_up(lab, seldom, rng.choice([1, 3]), stop_early=True)
        truth = await _truth(lab)
        assert live.knows() == truth
        assert steady.knows() == truth
    await _catch_up(lab, seldom, 4)
    newcomer = Reader(start)
    await _catch_up(lab, newcomer, 500)
    truth = await _truth(lab)
    assert seldom.knows() == truth
    assert newcomer.knows() == truth
    assert len(lab.commits) > 50


async def test_the_feed_is_empty_when_nothing_has_changed(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.prompt(session_id)
    cursor = await lab.store.cursor()
    assert await lab.store.feed(cursor) == Feed(cursor, ())


async def test_a_piece_of_the_feed_is_marked_if_there_is_more(lab: Lab) -> None:
    cursor = await lab.store.cursor()
    for _ in range(5):
        await lab.session()
    piece = await _piece(lab, cursor, 3)
    assert len([e for e in piece.events if isinstance(e, SessionUpdated)]) == 3
    assert piece.more is True
    piece = await _piece(lab, piece.cursor, 3)
    assert len([e for e in piece.events if isinstance(e, SessionUpdated)]) == 2
    assert piece.more is False


@pytest.mark.spec("C-06")
async def test_the_feed_has_the_status_and_open_and_closed_asks(lab: Lab) -> None:
    cursor = await lab.store.cursor()
    session_id, claim, (one, other, async_) = await lab.start_calls(None, None, None)
    one = await lab.move(claim, one, lab.ask(session_id))
    other = await lab.move(claim, other, lab.question(session_id))
    events = (await lab.store.feed(cursor)).events
    assert {e.request.id for e in events if isinstance(e, PermissionAsked | QuestionAsked)} == {
        one.ask_id,
        other.ask_id,
    }
    middle = await lab.store.cursor()
    await lab.store.cancel(session_id)
    snapshot = await lab.store.snapshot(claim)
    await lab.store.rest(claim, snapshot.control.wake_seq, "aborted")
    events = (await lab.store.feed(middle)).events
    assert [e.request_id for e in events if isinstance(e, PermissionReplied)] == [one.ask_id]
    assert [e.request_id for e in events if isinstance(e, QuestionRejected)] == [other.ask_id]
    assert events[-1] == PromptAnswered(
        session_id=session_id,
        message_id=(await lab.store.messages(session_id))[0].info.id,
        answer_id=async_.message_id,
    )
    assert SessionIdle(session_id=session_id) in events


async def test_a_call_that_asks_again_closes_its_earlier_ask(lab: Lab) -> None:
    session_id, claim, call, _ = await lab.open_ask()
    start = await lab.store.cursor()
    reader = Reader(f"{start.split('-')[0]}-0-0")
    await _catch_up(lab, reader, 500)
    assert set(reader.asks) == {call.ask_id}
    for _ in range(2):
        await lab.store.answer(ask_id(call), Once())
        call = await lab.move(claim, call, lab.ask(session_id))
    await _catch_up(lab, reader, 500)
    assert set(reader.asks) == {call.ask_id}


async def test_the_feed_has_a_session_that_was_deleted_and_created_again(lab: Lab) -> None:
    info = lab.info()
    await lab.store.create_session(NewSession(info=info, pool=POOL))
    await lab.prompt(info.id)
    reader = Reader(await lab.store.cursor())
    start = Reader(reader.cursor)
    await lab.store.delete_session(info.id)
    await lab.store.create_session(NewSession(info=info, pool=POOL))
    await lab.prompt(info.id)
    await _catch_up(lab, reader, 500)
    await _catch_up(lab, start, 1)
    truth = await _truth(lab)
    assert reader.knows() == truth
    assert start.knows() == truth


async def test_a_cursor_older_than_forgotten_deletions_is_reset(lab: Lab) -> None:
    old = await lab.session()
    behind = await lab.store.cursor()
    await lab.store.delete_session(old)
    at = await lab.store.cursor()
    assert [type(e) for e in (await lab.store.feed(behind)).events] == [SessionDeleted]
    await lab.store.forget_deleted(int(at.rsplit("-", 1)[1]))
    piece = await lab.store.feed(behind)
    assert piece.reset is True
    assert piece.events == ()
    assert piece.cursor == await lab.store.cursor()
    assert not (await lab.store.feed(at)).reset


async def test_forgetting_up_to_a_future_revision_keeps_current_cursors_valid(lab: Lab) -> None:
    session_id = await lab.session()
    await lab.store.forget_deleted(10**12)
    cursor = await lab.store.cursor()
    await lab.prompt(session_id)
    piece = await lab.store.feed(cursor)
    assert not piece.reset
    assert piece.events


async def test_a_cursor_of_another_store_is_reset(lab: Lab) -> None:
    epoch, _, rev = (await lab.store.cursor()).split("-")
    assert (await lab.store.feed(f"{'0' * len(epoch)}-0-{rev}")).reset
    assert (await lab.store.feed(f"{epoch}-0-{int(rev) + 1}")).reset
    assert (await lab.store.feed(f"{epoch}-0-{'9' * 18}")).reset


GARBAGE = [
    "",
    "-",
    "--",
    "abc",
    "a-b-c",
    "a-0--1",
    "a-0-1-2",
    "a-0-²",
    "a-0-१",
    "a-0-" + "9" * 19,
    "\0",
    "a-0- 1",
]


@pytest.mark.parametrize("cursor", GARBAGE)
async def test_a_malformed_cursor_is_refused(lab: Lab, cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        await lab.store.feed(cursor)


async def test_late_results_and_their_wakes_are_in_the_feed(lab: Lab) -> None:
    session_id, _, (call,) = await lab.start_calls(lab.open_state())
    cursor = await lab.store.cursor()
    await lab.store.settle(call.id, completed_result("42"))
    events = (await lab.store.feed(cursor)).events
    assert [e.part.id for e in events if isinstance(e, PartUpdated)] == [call.part_id]
    assert [e.session_id for e in events if isinstance(e, SessionUpdated)] == [session_id]
