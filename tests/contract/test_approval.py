"""An approval has many doors and one decision: whichever comes first counts, the others hear which it was."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.ask import Question, QuestionRequest
from asyncagents.domain.call.call import (
    ABORTED,
    CANCELLED,
    REJECTED,
    Answers,
    AsyncState,
    Call,
    Completed,
    Failed,
    Once,
    Open,
    Reject,
    Reply,
    Settled,
)
from asyncagents.domain.call.pending_tool import pending_status
from asyncagents.domain.call.reply import DECISION_OPTIONS, unanswered_result
from asyncagents.domain.conversation.part import ToolPart, ToolWaiting
from asyncagents.domain.conversation.status import WaitingAsync
from asyncagents.domain.event import Event, QuestionAsked, QuestionRejected, QuestionReplied
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.errors import ClaimLost, Conflict, InvalidInput
from tests.support.store.lab import Lab, ask_id, result_of

SECONDS = 3_600_000
YES: Reply = Answers((("Approve", "after lunch"),))


def asks(lab: Lab, session_id: SessionId, *, approval: bool = True) -> Open:
    due = lab.clock.now() + SECONDS
    question = Question(question="Ship v2?", header="Approval", options=DECISION_OPTIONS, custom=False)
    return Open(
        kind="async",
        since=lab.clock.now(),
        due=due,
        on_due=unanswered_result(due, "release managers", approval=approval),
        question=QuestionRequest(id=lab.ids.question(), session_id=session_id, questions=(question,)),
        who="release managers",
        approval=approval,
        blocks=False,
        later=AsyncState(due=due),
    )


async def opened(lab: Lab, *, approval: bool = True) -> tuple[SessionId, Claim, Call]:
    """A session whose tool has asked for a decision."""
    session_id, claim, (call,) = await lab.start_calls(None)
    call = await lab.start(claim, call)
    await lab.store.open_call(claim, call.id, asks(lab, session_id, approval=approval))
    return session_id, claim, await lab.store.call(call.id)


def closed(events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, QuestionReplied | QuestionRejected)]


async def fed(lab: Lab) -> list[Event]:
    return [e for e in (await lab.store.feed()).events if not isinstance(e, QuestionAsked)]


@pytest.mark.spec("C-03", "P-01")
async def test_an_open_approval_is_listed_as_an_ask_and_lets_the_session_park(lab: Lab) -> None:
    session_id, claim, call = await opened(lab)
    live = [event for event in lab.events if isinstance(event, QuestionAsked)]
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    (waiting,) = await lab.store.asks(session_id)
    assert waiting.call.id == call.id
    assert waiting.who == "release managers"
    assert waiting.until == lab.clock.now() + SECONDS
    assert [event.request.id for event in live] == [ask_id(call)]
    assert [e for e in (await lab.store.feed()).events if isinstance(e, QuestionAsked)] == live
    assert isinstance(await lab.store.status(session_id), WaitingAsync)
    assert pending_status(call) == "waiting"
    assert call.blocks_session is False
    (entry,) = [
        e for e in await lab.store.messages(session_id) if any(isinstance(p, ToolPart) for p in e.parts)
    ]
    (part,) = (part for part in entry.parts if isinstance(part, ToolPart))
    assert isinstance(part.state, ToolWaiting)


async def _yes(lab: Lab, call: Call, claim: Claim) -> None:
    await lab.store.answer(ask_id(call), YES, by="alice")


async def _no(lab: Lab, call: Call, claim: Claim) -> None:
    await lab.store.answer(ask_id(call), Reject(), by="bob")


async def _submit(lab: Lab, call: Call, claim: Claim) -> None:
    await lab.store.settle(call.id, Completed("yes, says the bot"))


async def _error(lab: Lab, call: Call, claim: Claim) -> None:
    await lab.store.settle(call.id, Failed("the bot is down"))


async def _cancel(lab: Lab, call: Call, claim: Claim) -> None:
    await lab.store.settle(call.id, Failed(CANCELLED))


async def _expire(lab: Lab, call: Call, claim: Claim) -> None:
    lab.clock.advance(SECONDS)
    await lab.store.expire()


async def _abort(lab: Lab, call: Call, claim: Claim) -> None:
    await lab.store.cancel(call.session_id)
    with suppress(ClaimLost):  # it rests already
        snapshot = await lab.store.snapshot(claim)
        await lab.store.rest(claim, snapshot.control.wake_seq, "aborted")


Door: TypeAlias = Callable[[Lab, Call, Claim], Awaitable[None]]
DOORS: dict[str, tuple[Door, str]] = {
    "yes": (_yes, "Approved by alice: after lunch"),
    "no": (_no, "Rejected by bob."),
    "result": (_submit, "yes, says the bot"),
    "error": (_error, "the bot is down"),
    "cancel": (_cancel, CANCELLED),
    "expiry": (_expire, "nobody (release managers) answered until 2023-11-14 23:13:20 UTC, so it is not"),
    "abort": (_abort, ABORTED),
}
SILENT = ("expiry", "abort")
"""They find nothing to end, and are no mistake."""


def text_of(call: Call) -> str:
    result = result_of(call)
    return result.output if isinstance(result, Completed) else result.error


@pytest.mark.spec("P-05", "P-14")
@pytest.mark.parametrize("first", DOORS)
@pytest.mark.parametrize("second", DOORS)
async def test_the_first_decision_counts_and_a_different_one_is_a_conflict(
    lab: Lab, first: str, second: str
) -> None:
    _, claim, call = await opened(lab)
    lab.commits.clear()
    await DOORS[first][0](lab, call, claim)
    decided = await lab.store.call(call.id)
    live = closed(lab.events)
    expected = DOORS[first][1]
    if second in SILENT or first == second:
        await DOORS[second][0](lab, call, claim)
    else:
        words = (
            "Approve"
            if (first, second) == ("yes", "no")
            else "reject"
            if first == "no" and second == "yes"
            else ""
        )
        with pytest.raises(Conflict, match=words or expected.replace("(", ".").replace(")", ".")):
            await DOORS[second][0](lab, call, claim)
    assert expected in text_of(decided)
    assert (await lab.store.call(call.id)).state == decided.state
    assert len(live) == 1
    assert closed(lab.events) == live == closed(await fed(lab))
    assert not await lab.store.asks()


@pytest.mark.spec("P-05")
async def test_one_of_many_concurrent_decisions_counts(lab: Lab) -> None:
    _, claim, call = await opened(lab)
    lab.commits.clear()
    doors = [DOORS[name][0] for name in ("yes", "no", "result", "error", "cancel")] * 3
    outcomes = await asyncio.gather(*(door(lab, call, claim) for door in doors), return_exceptions=True)
    assert len([each for each in outcomes if each is None]) == 3  # the first, and its likes
    assert all(isinstance(each, Conflict) for each in outcomes if each is not None)
    assert len(closed(lab.events)) == 1


async def test_the_first_answerer_is_stored_and_a_repeat_by_another_is_no_conflict(lab: Lab) -> None:
    _, _, call = await opened(lab)
    first = await lab.store.answer(ask_id(call), YES, by="alice")
    assert await lab.store.answer(ask_id(call), YES, by="bob") == first
    assert await lab.store.answer(ask_id(call), YES) == first
    assert await lab.store.answer(call.id, YES) == first  # under the id for results
    assert first.answered_by == "alice"
    result = result_of(first)
    assert isinstance(result, Completed)
    assert result.metadata == {
        "decision": "Approve",
        "approved": True,
        "comment": "after lunch",
        "answeredBy": "alice",
    }
    with pytest.raises(Conflict, match="by alice: Approve, after lunch"):
        await lab.store.answer(ask_id(call), Reject(), by="bob")


@pytest.mark.parametrize(
    "words",
    [(), ("",), ("perhaps",), ("Approved",)],
    ids=["nothing", "silence", "words of his own", "nearly a label"],
)
async def test_an_invalid_answer_leaves_the_approval_open(lab: Lab, words: tuple[str, ...]) -> None:
    _, _, call = await opened(lab)
    with pytest.raises(InvalidInput, match="Approve or Reject"):
        await lab.store.answer(ask_id(call), Answers((words,)))
    with pytest.raises(InvalidInput):
        await lab.store.answer(ask_id(call), Once())
    assert await lab.store.call(call.id) == call


async def test_a_rejected_approval_does_not_block_the_turn(lab: Lab) -> None:
    session_id, _, call = await opened(lab)
    await lab.store.answer(ask_id(call), Reject())
    control = await lab.store.control(session_id)
    assert control.blocked_turn != control.turn
    assert text_of(await lab.store.call(call.id)) == "Rejected."


async def test_an_async_question_that_is_no_approval_takes_any_words(lab: Lab) -> None:
    _, _, call = await opened(lab, approval=False)
    answered = await lab.store.answer(ask_id(call), Answers((("only the docs",),)), by="carol")
    assert text_of(answered) == "Ship v2?\nonly the docs"
    _, _, other = await opened(lab, approval=False)
    assert result_of(await lab.store.answer(ask_id(other), Reject())) == Failed(REJECTED)


async def test_rejecting_another_call_leaves_an_approval_open(lab: Lab) -> None:
    """What has begun is not taken back: whoever was asked may still decide."""
    session_id, claim, (asked, begun) = await lab.start_calls(None, None)
    asked = await lab.move(claim, asked, lab.ask(session_id))
    begun = await lab.start(claim, begun)
    await lab.store.open_call(claim, begun.id, asks(lab, session_id))
    await lab.store.answer(ask_id(asked), Reject())
    assert [each.call.id for each in await lab.store.asks()] == [begun.id]


async def test_a_call_with_an_early_result_asks_no_question(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    call = await lab.start(claim, call)
    await lab.store.settle(call.id, Completed("was asked already"))
    await lab.store.open_call(claim, call.id, asks(lab, session_id))
    assert not [event for event in lab.events if isinstance(event, QuestionAsked)]
    assert not closed(lab.events) + closed(await fed(lab))
    assert not await lab.store.asks()


async def test_the_ask_before_an_approval_accepts_a_repeated_answer(lab: Lab) -> None:
    session_id, claim, call, _ = await lab.open_ask()
    permission = ask_id(call)
    await lab.store.answer(permission, Once())
    call = await lab.start(claim, call)
    await lab.store.open_call(claim, call.id, asks(lab, session_id))
    assert (await lab.store.answer(permission, Once())).id == call.id
    with pytest.raises(Conflict, match="once"):
        await lab.store.answer(permission, Reject())
    assert isinstance((await lab.store.answer(ask_id(await lab.store.call(call.id)), YES)).state, Settled)


async def test_an_answer_to_a_settled_approval_is_refused_with_its_result(lab: Lab) -> None:
    _, _, call = await opened(lab)
    await lab.store.settle(call.id, Completed("yes, says the bot"))
    with pytest.raises(Conflict, match=f"{ask_id(call)}.*yes, says the bot"):
        await lab.store.answer(ask_id(call), YES)


@pytest.mark.spec("P-07")
@pytest.mark.parametrize("door", ["yes", "no", "result", "error", "cancel"])
async def test_a_decision_after_the_deadline_is_refused_before_the_call_expires(lab: Lab, door: str) -> None:
    _, claim, call = await opened(lab)
    lab.clock.advance(SECONDS)
    with pytest.raises(Conflict, match="over at 2023-11-14 23:13:20 UTC"):
        await DOORS[door][0](lab, call, claim)
    assert await lab.store.call(call.id) == call
    await lab.store.expire()
    assert DOORS["expiry"][1] in text_of(await lab.store.call(call.id))


async def test_a_result_after_the_deadline_counts_until_the_call_expires(lab: Lab) -> None:
    _, _, call = await opened(lab, approval=False)
    lab.clock.advance(SECONDS)
    assert text_of(await lab.store.settle(call.id, Completed("late"))) == "late"


async def test_an_approval_stays_open_after_its_expiry_warning(lab: Lab) -> None:
    _, claim, call = await opened(lab)
    state = call.open
    assert state is not None
    await lab.move(claim, call, replace(state, warn=lab.clock.now() + 10, later=call.later))
    lab.clock.advance(10)
    await lab.store.expire()
    (waiting,) = await lab.store.asks()
    assert waiting.call.open is not None
    assert waiting.call.open.warned
