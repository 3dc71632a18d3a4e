"""Tasks of MCP servers: when a server is asked, by whom, and what follows from what it says."""

from typing import Any

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    ABORTED,
    Answers,
    AsyncState,
    Call,
    Completed,
    Failed,
    Open,
    Reject,
    Settled,
)
from asyncagents.domain.call.server_task import MAX_CANCELS, MAX_POLL_MS, ServerTask
from asyncagents.domain.call.server_task_state import (
    ServerTaskEnded,
    ServerTaskState,
    ServerTaskUnreachable,
    ServerTaskWorking,
)
from asyncagents.domain.conversation.part import ToolPart, ToolWaiting
from asyncagents.domain.event import PartUpdated, QuestionAsked, QuestionRejected, QuestionReplied
from asyncagents.domain.id import CallId, SessionId
from asyncagents.errors import Conflict, InvalidInput
from asyncagents.store.verb.server_task import DuePolls
from tests.support.store.lab import POOL, Lab

SECOND = 1_000
FORM: dict[str, Any] = {
    "message": "Which?",
    "requestedSchema": {"properties": {"n": {"type": "integer"}}, "required": ["n"]},
}
HERE = (POOL,)


def working_on(lab: Lab, *, poll_ms: int = SECOND, due: int | None = None) -> Open:
    task = ServerTask(server="kit", id="task-1", poll_ms=poll_ms)
    return replace(lab.open_state(due=due), later=AsyncState(due=due, server_task=task))


async def start(lab: Lab, **how: Any) -> tuple[SessionId, CallId]:
    """A call that an MCP server works on, and whose session is parked."""
    session_id, claim, (call,) = await lab.start_calls(working_on(lab, **how))
    await lab.store.park(claim, (await lab.store.control(session_id)).wake_seq)
    return session_id, call.id


async def due(lab: Lab, root_id: SessionId | None = None) -> tuple[CallId, ...]:
    return (await lab.store.polls.due(HERE, root_id, 10)).now


async def next_poll(lab: Lab) -> int | None:
    return (await lab.store.polls.due(HERE, None, 10)).next_at


async def poll(lab: Lab, call_id: CallId, seen: ServerTaskState) -> Call:
    """Claim the due poll of a call and record what the server said; return the call then."""
    assert await due(lab) == (call_id,)
    assert await lab.store.polls.claim(call_id) is not None
    await lab.store.polls.note_state(call_id, seen)
    return await lab.store.call(call_id)


def asks(*keys: str, poll_ms: int = SECOND) -> ServerTaskWorking:
    return ServerTaskWorking(poll_ms=poll_ms, requests=dict.fromkeys(keys, FORM))


def task_of(call: Call) -> ServerTask:
    assert call.server_task is not None
    return call.server_task


@pytest.mark.spec("X-04")
async def test_a_server_is_asked_after_its_interval_by_one_process_at_a_time(lab: Lab) -> None:
    began = lab.clock.now()
    _, call_id = await start(lab, poll_ms=5 * SECOND)
    first = await next_poll(lab)
    early = await due(lab)
    lab.clock.advance(5 * SECOND)

    assert first == began + 5 * SECOND
    assert early == ()
    assert await due(lab) == (call_id,)
    assert await lab.store.polls.claim(call_id) is not None
    assert await lab.store.polls.claim(call_id) is None
    assert await due(lab) == ()
    assert await next_poll(lab) == began + 10 * SECOND


async def test_a_server_is_asked_only_for_sessions_of_the_pools_or_the_tree_that_are_served(lab: Lab) -> None:
    session_id, call_id = await start(lab)
    other_id = await lab.session()
    lab.clock.advance(SECOND)

    assert await lab.store.polls.due(("elsewhere",), None, 10) == DuePolls((), None)
    assert await due(lab, session_id) == (call_id,)
    assert await due(lab, other_id) == ()
    assert (await lab.store.due_times()).poll == lab.clock.now()


async def test_what_a_server_wants_is_taken_over(lab: Lab) -> None:
    _, call_id = await start(lab)
    lab.clock.advance(SECOND)
    call = await poll(lab, call_id, ServerTaskWorking(poll_ms=7 * SECOND, message="Half done"))

    assert task_of(call).poll_ms == 7 * SECOND
    assert await next_poll(lab) == lab.clock.now() + 7 * SECOND
    shown = [event.part for event in lab.events if isinstance(event, PartUpdated)][-1]
    assert isinstance(shown, ToolPart)
    assert isinstance(shown.state, ToolWaiting)
    assert shown.state.output == "Half done"


async def test_a_server_that_cannot_be_reached_is_asked_less_and_less_often(lab: Lab) -> None:
    _, call_id = await start(lab)
    lab.clock.advance(SECOND)
    pauses = []
    for _ in range(8):
        await poll(lab, call_id, ServerTaskUnreachable("no answer"))
        at = await next_poll(lab)
        assert at is not None
        pauses.append(at - lab.clock.now())
        lab.clock.advance(at - lab.clock.now())
    call = await poll(lab, call_id, ServerTaskWorking(poll_ms=SECOND))

    assert pauses == [2_000, 4_000, 8_000, 16_000, 32_000, MAX_POLL_MS, MAX_POLL_MS, MAX_POLL_MS]
    assert task_of(call).failures == 0


@pytest.mark.spec("X-04", "C-03")
async def test_the_end_of_a_task_settles_the_call_once_and_wakes_its_session(lab: Lab) -> None:
    session_id, call_id = await start(lab)
    lab.clock.advance(SECOND)
    lab.commits.clear()
    call = await poll(lab, call_id, ServerTaskEnded(Completed("done")))
    again = await lab.store.polls.note_state(call_id, ServerTaskEnded(Failed("other")))

    assert isinstance(call.state, Settled)
    assert call.state.result == Completed("done")
    assert session_id in lab.woken
    assert again is None
    assert await next_poll(lab) is None
    assert (await lab.store.due_times()).poll is None


@pytest.mark.spec("X-04")
async def test_a_form_is_asked_once_and_its_answer_is_due_at_once(lab: Lab) -> None:
    session_id, call_id = await start(lab)
    lab.clock.advance(SECOND)
    at_work = await lab.store.working_sessions(session_id)
    asked = (await poll(lab, call_id, asks("k"))).ask_id
    assert asked is not None
    waits_for_person = await lab.store.working_sessions(session_id), (await lab.store.due_times()).poll
    lab.clock.advance(SECOND)
    again = (await poll(lab, call_id, asks("k"))).ask_id
    with pytest.raises(InvalidInput, match="takes a number"):
        await lab.store.answer(asked, Answers((("many",),)))
    answered = await lab.store.answer(asked, Answers((("7",),)))
    repeated = await lab.store.answer(asked, Answers((("7",),)))
    with pytest.raises(Conflict, match="already answered otherwise"):
        await lab.store.answer(asked, Answers((("8",),)))

    assert at_work == (session_id,)
    assert waits_for_person == ((), None)
    assert again == asked
    assert len([event for event in lab.events if isinstance(event, QuestionAsked)]) == 1
    assert len([event for event in lab.events if isinstance(event, QuestionReplied)]) == 1
    assert answered == repeated
    assert answered.open is not None
    assert answered.reply_to_send == Answers((("7",),))
    assert await due(lab, session_id) == (call_id,)


async def test_answers_that_were_sent_are_not_asked_for_again(lab: Lab) -> None:
    _, call_id = await start(lab)
    lab.clock.advance(SECOND)
    first = (await poll(lab, call_id, asks("k"))).ask_id
    assert first is not None
    await lab.store.answer(first, Reject())
    assert await lab.store.polls.claim(call_id) is not None
    await lab.store.polls.note_answered(call_id, ("k",))
    lab.clock.advance(SECOND)
    waiting = await poll(lab, call_id, asks("k"))
    lab.clock.advance(SECOND)
    second = await poll(lab, call_id, asks("k", "l"))

    assert task_of(waiting).answered == ("k",)
    assert waiting.open is not None
    assert waiting.open.question is None
    assert waiting.reply_to_send is None
    assert second.ask_id not in (None, first)
    assert list(task_of(second).requests) == ["l"]


async def test_an_answer_that_did_not_arrive_is_due_again(lab: Lab) -> None:
    _, call_id = await start(lab)
    lab.clock.advance(SECOND)
    asked = (await poll(lab, call_id, asks("k"))).ask_id
    assert asked is not None
    await lab.store.answer(asked, Answers((("7",),)))
    unsent = await poll(lab, call_id, ServerTaskUnreachable("no answer"))

    assert unsent.reply_to_send == Answers((("7",),))
    assert await next_poll(lab) == lab.clock.now() + 2 * SECOND


async def test_a_form_that_the_server_withdraws_is_closed(lab: Lab) -> None:
    _, call_id = await start(lab)
    lab.clock.advance(SECOND)
    await poll(lab, call_id, asks("k"))
    lab.clock.advance(SECOND)
    call = await poll(lab, call_id, ServerTaskWorking(poll_ms=SECOND))

    assert not call.asking
    assert len([event for event in lab.events if isinstance(event, QuestionRejected)]) == 1


async def test_what_cannot_be_asked_fails_the_call_and_cancels_the_task(lab: Lab) -> None:
    _, call_id = await start(lab)
    lab.clock.advance(SECOND)
    strange = ServerTaskWorking(poll_ms=SECOND, requests={"k": {"mode": "sampling/createMessage"}})
    call = await poll(lab, call_id, strange)

    assert isinstance(call.state, Settled)
    assert isinstance(call.state.result, Failed)
    assert "sampling/createMessage" in call.state.result.error
    assert await due(lab) == (call_id,)


@pytest.mark.spec("X-04")
async def test_an_abort_leaves_a_cancel_that_is_sent_once(lab: Lab) -> None:
    session_id, call_id = await start(lab)
    await lab.store.cancel(session_id)
    assert await due(lab) == (call_id,)
    call = await lab.store.polls.claim(call_id)
    assert call is not None
    late = await lab.store.polls.note_state(call_id, ServerTaskEnded(Completed("late")))
    over = await lab.store.polls.note_cancelled(call_id, reached=True)

    assert isinstance(call.state, Settled)
    assert call.state.result == Failed(ABORTED)
    assert late is None
    assert over
    assert await next_poll(lab) is None
    assert await lab.store.polls.claim(call_id) is None


async def test_a_cancel_that_cannot_be_sent_is_given_up_after_some_tries(lab: Lab) -> None:
    session_id, call_id = await start(lab)
    await lab.store.cancel(session_id)
    tries, over = 0, False
    while (await lab.store.due_times()).poll is not None:
        lab.clock.advance(2 * MAX_POLL_MS)
        assert await lab.store.polls.claim(call_id) is not None
        over = await lab.store.polls.note_cancelled(call_id, reached=False)
        tries += 1

    assert tries == MAX_CANCELS
    assert over


async def test_a_deadline_ends_the_wait_and_cancels_the_task(lab: Lab) -> None:
    _, call_id = await start(lab, due=lab.clock.now() + SECOND)
    lab.clock.advance(SECOND)
    await lab.store.expire()
    call = await lab.store.call(call_id)

    assert isinstance(call.state, Settled)
    assert call.state.expired
    assert await due(lab) == (call_id,)
