"""An abort ends the turn, keeps what was not read, and covers nothing that came after it."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import (
    ABORTED,
    Always,
    AsyncState,
    Failed,
    Running,
)
from asyncagents.domain.call.late_result import result_text
from asyncagents.domain.conversation.failure import MessageAbortedError, aborted_error, api_error
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import PartTime, TextPart, ToolFailed, ToolPart
from asyncagents.domain.conversation.status import Idle
from asyncagents.domain.event import PermissionReplied, PromptAnswered, SessionError
from asyncagents.domain.id import MessageId, SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.errors import AlreadySettled, Conflict, NotFound
from asyncagents.store.tx import Tx
from tests.support.store.lab import ALICE, BOB, Lab, ask_id, completed_result, result_of


async def _abort(lab: Lab, claim: Claim) -> None:
    snapshot = await lab.store.snapshot(claim)
    assert snapshot.is_cancelled
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "aborted")


async def _aborted_answer(lab: Lab, message_id: MessageId) -> AssistantMessage:
    answer_id = (await lab.store.input(message_id)).answer_id
    assert answer_id is not None
    info = (await lab.store.message(answer_id)).info
    assert isinstance(info, AssistantMessage)
    assert isinstance(info.error, MessageAbortedError)
    assert info.time.completed is not None
    return info


@pytest.mark.spec("C-10")
async def test_an_abort_settles_open_calls_and_leaves_an_aborted_message(lab: Lab) -> None:
    session_id, claim, asks, others = await lab.open_ask(None, None, None)
    unstarted, runs, waits = others
    await lab.start(claim, runs)
    await lab.move(claim, waits, lab.open_state())
    (prompt,) = [e.info.id for e in await lab.store.messages(session_id)][:1]
    lab.commits.clear()
    await lab.store.cancel(session_id)
    assert lab.woken == [session_id]
    await _abort(lab, claim)

    for call in (asks, unstarted, runs, waits):
        assert result_of(await lab.store.call(call.id)) == Failed(ABORTED)
    message = await lab.store.message(asks.message_id)
    assert (await _aborted_answer(lab, prompt)).id == message.info.id
    tools = [part for part in message.parts if isinstance(part, ToolPart)]
    assert len(tools) == 4
    assert all(isinstance(part.state, ToolFailed) for part in tools)
    assert [e.request_id for e in lab.events if isinstance(e, PermissionReplied)] == [ask_id(asks)]
    assert [e for e in lab.events if isinstance(e, SessionError)]
    assert await lab.store.status(session_id) == Idle()
    with pytest.raises(AlreadySettled, match=ABORTED):
        await lab.store.settle(waits.id, completed_result())


@pytest.mark.spec("C-10")
async def test_unread_input_is_aborted_answered_and_read_with_the_next_prompt(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    queued = [await lab.prompt(session_id, f"no. {n}") for n in range(2)]
    await lab.end(claim, step)
    await lab.store.cancel(session_id)
    lab.commits.clear()
    await _abort(lab, claim)
    answered = {e.message_id: e.answer_id for e in lab.events if isinstance(e, PromptAnswered)}
    answer = await _aborted_answer(lab, queued[0])
    assert answered == dict.fromkeys(queued, answer.id)
    said = (await lab.store.message(step.id)).info
    assert isinstance(said, AssistantMessage)
    assert (await lab.store.input(prompt)).answer_id == step.id
    assert said.error is None
    control = await lab.store.control(session_id)
    assert control.state == "idle"
    assert not control.in_turn
    assert [(await lab.store.input(q)).state for q in queued] == ["aborted"] * 2
    assert set(queued) <= {e.info.id for e in await lab.store.messages(session_id)}
    assert await lab.store.claim(session_id, ALICE, dead=None) is None

    loud = await lab.prompt(session_id, "go on")
    claim = await lab.claim(session_id)
    assert not (await lab.store.snapshot(claim)).is_cancelled
    second = await lab.step(claim, since=step.started.position + 1)
    assert [e.info.id for e in second.started.tail] == [answer.id, *queued, loud]
    snapshot = await lab.end(claim, second)
    lab.commits.clear()
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "done")
    answered = {e.message_id: e.answer_id for e in lab.events if isinstance(e, PromptAnswered)}
    assert answered == {loud: second.id}


@pytest.mark.spec("C-10")
async def test_an_abort_before_the_first_promotion_answers_with_a_message_of_its_own(lab: Lab) -> None:
    session_id = await lab.session()
    prompt = await lab.prompt(session_id)
    await lab.store.cancel(session_id)
    claim = await lab.claim(session_id)
    await _abort(lab, claim)
    answer = await _aborted_answer(lab, prompt)
    assert answer.parent_id == prompt
    wire = [e.info.id for e in await lab.store.messages(session_id)]
    assert wire == [prompt, answer.id]
    assert (await lab.store.control(session_id)).state == "idle"


@pytest.mark.spec("C-10")
async def test_input_admitted_after_the_cancel_is_not_covered(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.end(claim, step)
    await lab.store.cancel(session_id)
    later = await lab.prompt(session_id, "never mind, do this")
    await _abort(lab, claim)
    assert (await lab.store.input(later)).answer_id is None
    await _aborted_answer(lab, prompt)
    assert (await lab.store.control(session_id)).state == "ready"
    claim = await lab.claim(session_id)
    assert not (await lab.store.snapshot(claim)).is_cancelled
    second = await lab.step(claim)
    assert second.started.message.parent_id == later
    assert (await lab.store.control(session_id)).turn == 2


@pytest.mark.spec("C-10")
async def test_of_input_before_and_after_a_cancel_only_the_first_is_aborted(lab: Lab) -> None:
    session_id, early, claim = await lab.claim_prompted()
    await lab.store.cancel(session_id)
    late = await lab.prompt(session_id, "do this")
    assert await lab.store.start_step(claim, lab.new_step()) is None
    await _abort(lab, claim)
    assert (await _aborted_answer(lab, early)).parent_id == early
    assert (await lab.store.input(late)).answer_id is None
    claim = await lab.claim(session_id)
    step = await lab.step(claim)
    assert step.started.message.parent_id == late


async def test_a_cancelled_turn_is_aborted_by_the_next_owner_after_a_crash(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    await lab.step(claim)
    await lab.store.cancel(session_id)
    claim = await lab.claim(session_id, BOB, dead=ALICE)
    await _abort(lab, claim)
    answer = await _aborted_answer(lab, prompt)
    assert answer.parent_id == prompt
    assert [row[2] for row in await lab.requests(session_id)] == ["lost"]


async def test_a_cancel_of_an_idle_session_does_not_affect_the_next_prompt(lab: Lab) -> None:
    session_id = await lab.session()
    lab.commits.clear()
    assert await lab.store.cancel(session_id) == (session_id,)
    assert (await lab.store.control(session_id)).state == "idle"
    assert lab.woken == []
    await lab.prompt(session_id)
    claim = await lab.claim(session_id)
    assert not (await lab.store.snapshot(claim)).is_cancelled
    await lab.step(claim)
    with pytest.raises(NotFound):
        await lab.store.cancel(SessionId("ses_nobody"))


@pytest.mark.spec("C-10")
async def test_a_parked_session_is_woken_by_an_abort(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(lab.open_state())
    snapshot = await lab.store.snapshot(claim)
    await lab.store.park(claim, snapshot.control.wake_seq)
    await lab.store.cancel(session_id)
    claim = await lab.claim(session_id)
    await _abort(lab, claim)
    assert result_of(await lab.store.call(call.id)) == Failed(ABORTED)
    assert await lab.store.statuses() == {}


@pytest.mark.spec("C-10")
async def test_an_abort_leaves_no_part_half_open(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    part = lab.text(step, "Once upon a")
    await lab.write(claim, part)
    await lab.store.cancel(session_id)
    lab.clock.advance(7)
    end = lab.step_end(step, error=aborted_error(), tokens=None)
    closed = replace(part, time=PartTime(start=lab.clock.now() - 7, end=lab.clock.now()))
    await lab.store.finish_step(claim, replace(end, parts=(closed,)))
    await _abort(lab, claim)
    assert (await _aborted_answer(lab, prompt)).id == step.id
    before = await lab.store.message(step.id)
    assert before.parts[1:] == (closed,)
    assert [row[2] for row in await lab.requests(session_id)] == ["done"]
    await lab.prompt(session_id)
    await lab.claim(session_id)
    assert await lab.store.message(step.id) == before


async def test_an_error_that_was_there_is_not_replaced_by_an_abort(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    error = api_error("overloaded", is_retryable=False)
    step = await lab.step(claim)
    await lab.end(claim, step, error=error)
    await lab.store.cancel(session_id)
    await _abort(lab, claim)
    info = (await lab.store.message(step.id)).info
    assert isinstance(info, AssistantMessage)
    assert info.error == error
    assert (await lab.store.input(prompt)).answer_id == step.id


@pytest.mark.spec("X-11")
async def test_the_model_reads_once_that_a_call_shown_as_pending_was_aborted(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(lab.open_state())
    await lab.prompt(session_id, source="system")
    await lab.end(claim, await lab.step(claim))
    await lab.store.cancel(session_id)
    await _abort(lab, claim)
    assert (await lab.store.control(session_id)).state == "idle"
    await lab.prompt(session_id)
    claim = await lab.claim(session_id)
    tail = (await lab.step(claim)).started.tail
    texts = [part.text for entry in tail for part in entry.parts if isinstance(part, TextPart)]
    assert texts.count(result_text(await lab.store.call(call.id))) == 1


@pytest.mark.spec("C-10")
async def test_a_cancel_reaches_the_descendants(lab: Lab) -> None:
    parent, _, _ = await lab.claim_prompted()
    child = await lab.session(parent=parent)
    await lab.prompt(child)
    claim = await lab.claim(child)
    await lab.step(claim)
    assert await lab.store.cancel(parent) == (parent, child)
    assert (await lab.store.snapshot(claim)).is_cancelled


@pytest.mark.spec("C-10")
async def test_a_cancel_outside_a_turn_settles_open_calls(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(lab.open_state())
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "error")
    lab.commits.clear()
    await lab.store.cancel(session_id)
    assert result_of(await lab.store.call(call.id)) == Failed("Tool execution aborted")
    assert lab.woken == []
    assert await lab.store.status(session_id) == Idle()


@pytest.mark.spec("C-10", "P-05")
async def test_a_cancel_refuses_results_and_answers_before_the_run_sees_it(lab: Lab) -> None:
    session_id, claim, (starts, waits, asks) = await lab.start_calls(None, None, None)
    await lab.move(claim, starts, Running(claim.fence, AsyncState()))
    await lab.move(claim, waits, lab.open_state())
    asks = await lab.move(claim, asks, lab.ask(session_id))
    await lab.store.cancel(session_id)
    for call in (starts, waits):
        with pytest.raises(AlreadySettled, match=ABORTED):
            await lab.store.settle(call.id, completed_result())
    with pytest.raises(Conflict, match="no longer open"):
        await lab.store.answer(ask_id(asks), Always())
    await _abort(lab, claim)


@pytest.mark.spec("C-10")
async def test_a_turn_is_cancelled_though_a_call_of_it_cannot_be_read(lab: Lab) -> None:
    session_id, _, (call,) = await lab.start_calls(lab.open_state())

    async def spoil(tx: Tx) -> None:
        columns = (call.id, session_id, call.part_id, None, call.tool, "open", None, False, None, b"{no")
        await tx.one("put_call", *columns, 1_000, await tx.rev())

    await lab.database.write(spoil)
    lab.commits.clear()
    await lab.store.cancel(session_id)
    assert lab.woken == [session_id]
    assert (await lab.store.control(session_id)).is_cancelled()
