"""Calls move on, and are settled once."""

import asyncio

import pytest

from asyncagents.domain.call.call import (
    REJECTED,
    Call,
    Completed,
    Failed,
    Open,
    Reject,
    Requested,
    Running,
    Settled,
    render,
)
from asyncagents.domain.call.result_file import ResultFile
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import FilePart, TextPart, ToolCompleted, ToolPart
from asyncagents.domain.event import PartUpdated, PermissionAsked, PermissionReplied, QuestionAsked
from asyncagents.domain.id import CallId, SessionId
from asyncagents.domain.step import CallMove
from asyncagents.errors import AlreadySettled, Conflict, NotFound
from tests.support.store.lab import ALICE, BOB, Lab, ask_id, completed_result, result_of, state_of

FILE = ResultFile("image/png", f"data:image/png;base64,{'A' * 100_000}", "dot.png")
SEEN = Completed("[a dot]", files=(FILE,))


async def test_a_started_call_knows_its_fence_and_its_time(lab: Lab) -> None:
    _, claim, (call,) = await lab.start_calls(None)
    lab.clock.advance(5)
    snapshot = await lab.store.advance(claim, (CallMove(call.id, Running(claim.fence)),))
    (started,) = snapshot.executing_calls
    assert started.state == Running(claim.fence)
    assert started.started == lab.clock.now()
    lab.clock.advance(5)
    again = await lab.start(claim, call)
    assert again == started


async def test_a_call_of_a_dead_run_is_abandoned_until_it_is_started_again(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    await lab.start(claim, call)
    claim = await lab.claim(session_id, BOB, dead=ALICE)
    snapshot = await lab.store.snapshot(claim)
    assert [c.id for c in snapshot.abandoned_calls] == [call.id]
    assert snapshot.executing_calls == ()
    snapshot = await lab.store.advance(claim, (CallMove(call.id, Running(claim.fence)),))
    assert [c.id for c in snapshot.executing_calls] == [call.id]
    assert snapshot.abandoned_calls == ()


async def test_the_stored_part_always_shows_the_state_of_its_call(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    for state in (
        Running(claim.fence),
        lab.open_state(),
        lab.ask(session_id),
        Requested(),
        Running(claim.fence),
    ):
        lab.commits.clear()
        moved = await lab.move(claim, call, state)
        assert moved.state == state
        parts = (await lab.store.message(call.message_id)).parts
        assert render(moved) in parts
        assert [e.part for e in lab.events if isinstance(e, PartUpdated)] == [render(moved)]
    settled = await lab.store.finish_call(claim, call.id, completed_result())
    assert render(settled) in (await lab.store.message(call.message_id)).parts


async def test_asks_and_questions_are_published_when_they_open(lab: Lab) -> None:
    session_id, claim, (one, other) = await lab.start_calls(None, None)
    lab.commits.clear()
    ask, question = lab.ask(session_id), lab.question(session_id)
    assert ask.ask is not None
    assert question.question is not None
    moves = (CallMove(one.id, ask), CallMove(other.id, question))
    snapshot = await lab.store.advance(claim, moves)
    assert len(snapshot.blocking_calls) == 2
    assert PermissionAsked(request=ask.ask) in lab.events
    assert QuestionAsked(request=question.question) in lab.events


@pytest.mark.spec("X-11")
async def test_a_settled_call_ignores_later_state_changes(lab: Lab) -> None:
    _, claim, (call,) = await lab.start_calls(None)
    await lab.start(claim, call)
    first = await lab.store.settle(call.id, completed_result("early"))
    for late in (lab.open_state(), Requested(), Running(claim.fence)):
        assert await lab.move(claim, call, late) == first
    assert await lab.store.finish_call(claim, call.id, completed_result("mine")) == first
    assert await lab.store.call(call.id) == first


@pytest.mark.spec("C-10")
async def test_no_call_starts_in_a_cancelled_turn(lab: Lab) -> None:
    session_id, claim, (call, started) = await lab.start_calls(None, None)
    await lab.start(claim, started)
    await lab.store.cancel(session_id)
    assert state_of(await lab.start(claim, call)) == "Requested"
    assert state_of(await lab.move(claim, started, lab.open_state())) == "Open"


async def test_a_finished_call_settles_with_its_facts(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    other = await lab.session()
    await lab.start(claim, call)
    fact = lab.input(other, "from the tool", source="system")
    before = (await lab.store.control(session_id)).wake_seq
    lab.clock.advance(3)
    lab.commits.clear()
    settled = await lab.store.finish_call(claim, call.id, completed_result(), (fact,))
    assert settled.state == Settled(completed_result(), lab.clock.now())
    assert (await lab.store.input(fact.message.id)).state == "queued"
    assert (await lab.store.control(session_id)).wake_seq == before + 1
    assert set(lab.woken) == {session_id, other}
    assert len(lab.commits) == 1


async def test_the_facts_of_a_call_that_was_settled_before_are_dropped(lab: Lab) -> None:
    _, claim, (call,) = await lab.start_calls(None)
    other = await lab.session()
    await lab.start(claim, call)
    first = await lab.store.settle(call.id, completed_result("outside"))
    fact = lab.input(other)
    assert await lab.store.finish_call(claim, call.id, completed_result(), (fact,)) == first
    with pytest.raises(NotFound):
        await lab.store.input(fact.message.id)


async def test_a_call_is_settled_despite_facts_about_ended_calls_and_sessions(lab: Lab) -> None:
    _, _, (over,) = await lab.start_calls(lab.open_state())
    await lab.store.settle(over.id, completed_result("first"))
    gone = await lab.session()
    facts = (lab.settle_fact(over.id, "second"), lab.settle_fact(CallId("tool_gone"), "x"), lab.input(gone))
    await lab.store.delete_session(gone)
    _, claim, (call,) = await lab.start_calls(None)
    await lab.start(claim, call)
    assert state_of(await lab.store.finish_call(claim, call.id, completed_result(), facts)) == "Settled"
    assert result_of(await lab.store.call(over.id)) == completed_result("first")


@pytest.mark.spec("X-11")
async def test_a_result_from_outside_settles_once_and_wakes_the_session(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(lab.open_state())
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    lab.clock.advance(60_000)
    lab.commits.clear()
    result = Completed("built", "Build", {"ms": 60_000})
    settled = await lab.store.settle(call.id, result)
    assert settled.state == Settled(result, lab.clock.now())
    assert lab.woken == [session_id]
    assert (await lab.store.control(session_id)).state == "ready"
    part = next(p for p in (await lab.store.message(call.message_id)).parts if isinstance(p, ToolPart))
    assert isinstance(part.state, ToolCompleted)
    assert part.state.output == "built"
    assert part.state.title == "Build"
    assert part.state.metadata == {"ms": 60_000}

    before, cursor = await lab.read_everything(), await lab.store.cursor()
    assert await lab.store.settle(call.id, Completed("built", "Build", {"ms": 60_000})) == settled
    with pytest.raises(AlreadySettled, match="built") as caught:
        await lab.store.settle(call.id, Failed("no"))
    assert caught.value.call_id == call.id
    assert await lab.read_everything() == before
    assert await lab.store.cursor() == cursor


async def test_of_many_results_at_once_one_is_taken(lab: Lab) -> None:
    session_id, _, (call,) = await lab.start_calls(lab.open_state())
    results = [completed_result(f"no. {n % 5}") for n in range(20)]
    answers = await asyncio.gather(
        *(lab.store.settle(call.id, result) for result in results), return_exceptions=True
    )
    kept = result_of(await lab.store.call(call.id))
    for result, answer in zip(results, answers, strict=True):
        assert isinstance(answer, AlreadySettled) == (result != kept)
    assert len([c for c in await lab.store.calls(session_id) if c.is_settled]) == 1


async def test_a_result_for_a_call_that_takes_none_is_a_conflict(lab: Lab) -> None:
    session_id, claim, (unstarted, asks, wonders) = await lab.start_calls(None, None, None)
    asks = await lab.move(claim, asks, lab.ask(session_id))
    wonders = await lab.move(claim, wonders, lab.question(session_id))
    before = await lab.read_everything()
    with pytest.raises(Conflict, match="not started"):
        await lab.store.settle(unstarted.id, completed_result())
    for call in (asks, wonders):
        with pytest.raises(Conflict, match=ask_id(call)):
            await lab.store.settle(call.id, completed_result())
    with pytest.raises(NotFound):
        await lab.store.settle(CallId("tool_nobody"), completed_result())
    assert await lab.read_everything() == before


async def test_a_result_is_accepted_before_the_tool_returns_pending(lab: Lab) -> None:
    _, claim, (call,) = await lab.start_calls(None)
    await lab.start(claim, call)
    assert state_of(await lab.store.settle(call.id, completed_result())) == "Settled"


async def _shown_pending(lab: Lab, state: Open) -> tuple[SessionId, Call]:
    session_id, claim, (call,) = await lab.start_calls(state)
    await lab.prompt(session_id, "meanwhile?", source="system")
    snapshot = await lab.end(claim, await lab.step(claim))
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    return session_id, await lab.store.call(call.id)


@pytest.mark.spec("X-11")
async def test_a_result_of_a_call_shown_as_pending_arrives_as_one_message(lab: Lab) -> None:
    session_id, call = await _shown_pending(lab, lab.open_state())
    assert call.shown_pending
    wakes = (await lab.store.control(session_id)).wake_seq
    settled = await lab.store.settle(call.id, completed_result("the answer is 42"))
    assert await lab.store.settle(call.id, completed_result("the answer is 42")) == settled
    newest = (await lab.store.messages(session_id))[-1]
    assert isinstance(newest.info, UserMessage)
    (part,) = newest.parts
    assert isinstance(part, TextPart)
    assert part.synthetic
    assert "the answer is 42" in part.text
    assert call.call_id in part.text
    assert (await lab.store.input(newest.info.id)).state == "queued"
    assert (await lab.store.control(session_id)).wake_seq > wakes

    claim = await lab.claim(session_id)
    assert (await lab.store.snapshot(claim)).unread == 1
    step = await lab.step(claim)
    texts = [p.text for e in step.started.tail for p in e.parts if isinstance(p, TextPart)]
    assert sum("the answer is 42" in text for text in texts) == 1
    assert step.started.shown == {call.part_id}


@pytest.mark.spec("X-04")
async def test_files_of_a_result_are_kept_with_the_call_and_its_part(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(None)
    await lab.start(claim, call)
    await lab.store.finish_call(claim, call.id, SEEN)
    assert result_of(await lab.store.call(call.id)) == SEEN
    entries = await lab.store.messages(session_id)
    (part,) = [part for entry in entries for part in entry.parts if isinstance(part, ToolPart)]
    assert isinstance(part.state, ToolCompleted)
    assert part.state.attachments is not None
    (shown,) = part.state.attachments
    assert shown.url == FILE.url
    assert shown.filename == "dot.png"
    assert shown.session_id == session_id


@pytest.mark.spec("X-04", "X-11")
async def test_files_of_a_late_result_are_parts_of_its_message(lab: Lab) -> None:
    session_id, call = await _shown_pending(lab, lab.open_state())
    await lab.store.settle(call.id, SEEN)
    newest = (await lab.store.messages(session_id))[-1]
    text, file = newest.parts
    assert isinstance(text, TextPart)
    assert text.text.endswith("[a dot]\n\n[attached: dot.png (image/png)]")
    assert isinstance(file, FilePart)
    assert file.url == FILE.url
    assert file.message_id == newest.info.id


async def test_a_result_of_a_call_not_shown_as_pending_adds_no_message(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(lab.open_state())
    await lab.store.settle(call.id, completed_result("quiet"))
    assert (await lab.store.snapshot(claim)).unread == 0
    assert len(await lab.store.messages(session_id)) == 2


async def test_a_prompt_of_a_person_ends_a_wait(lab: Lab) -> None:
    session_id, _lease, (wait, works) = await lab.start_calls(lab.open_state("wait"), lab.open_state("async"))
    await lab.prompt(session_id, source="system")
    assert state_of(await lab.store.call(wait.id)) == "Open"
    await lab.prompt(session_id, wakes=False)
    assert state_of(await lab.store.call(wait.id)) == "Open"
    await lab.prompt(session_id)
    assert isinstance(result_of(await lab.store.call(wait.id)), Completed)
    assert state_of(await lab.store.call(works.id)) == "Open"


@pytest.mark.spec("X-11")
async def test_a_rejection_settles_asks_and_unstarted_calls_but_not_running_ones(lab: Lab) -> None:
    session_id, claim, asks, (unstarted, runs, waits, other) = await lab.open_ask(None, None, None, None)
    await lab.start(claim, runs)
    await lab.move(claim, waits, lab.open_state())
    other = await lab.move(claim, other, lab.ask(session_id))
    lab.commits.clear()
    rejected = await lab.store.answer(ask_id(asks), Reject())
    assert result_of(rejected) == Failed(REJECTED, blocks=True)
    states = {c.id: state_of(c) for c in await lab.store.calls(session_id)}
    assert states == {
        asks.id: "Settled",
        unstarted.id: "Settled",
        runs.id: "Running",
        waits.id: "Open",
        other.id: "Settled",
    }
    snapshot = await lab.store.snapshot(claim)
    assert snapshot.is_blocked
    closed = {e.request_id: e.reply for e in lab.events if isinstance(e, PermissionReplied)}
    assert closed == {ask_id(asks): "reject", ask_id(other): "reject"}
    with pytest.raises(Conflict):
        await lab.store.answer(ask_id(other), Reject("changed my mind"))
    assert result_of(await lab.store.finish_call(claim, runs.id, completed_result())) == completed_result()


async def test_a_rejection_with_a_reason_lets_the_turn_go_on(lab: Lab) -> None:
    _, claim, asks, (sibling,) = await lab.open_ask(None)
    rejected = await lab.store.answer(ask_id(asks), Reject("use make instead"))
    result = result_of(rejected)
    assert isinstance(result, Failed)
    assert "use make instead" in result.error
    snapshot = await lab.store.snapshot(claim)
    assert not snapshot.is_blocked
    assert [c.id for c in snapshot.requested_calls] == [sibling.id]
