"""A run ends by parking or resting, unless something arrived since it decided to."""

import pytest

from asyncagents.domain.call.call import Completed, Reject
from asyncagents.domain.conversation.failure import api_error
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.status import Busy, Idle, WaitingAsync
from asyncagents.domain.event import PromptAnswered, SessionIdle, SessionStatus
from asyncagents.domain.id import CallId, MessageId, SessionId
from asyncagents.domain.session_state import Claim
from tests.support.store.lab import ALICE, Lab, ask_id, completed_result, result_of, state_of


def _answered(lab: Lab) -> dict[MessageId, MessageId]:
    return {e.message_id: e.answer_id for e in lab.events if isinstance(e, PromptAnswered)}


@pytest.mark.spec("S-12", "C-06")
async def test_a_rest_ends_the_turn_and_answers_all_its_prompts(lab: Lab) -> None:
    session_id = await lab.session()
    prompts = [await lab.prompt(session_id) for _ in range(3)]
    claim = await lab.claim(session_id)
    step = await lab.step(claim)
    snapshot = await lab.end(claim, step)
    lab.commits.clear()
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "done")

    control = await lab.store.control(session_id)
    assert control.state == "idle"
    assert control.owner is None
    assert not control.in_turn
    assert control.claims == 0
    assert await lab.store.status(session_id) == Idle()
    assert SessionStatus(session_id=session_id, status=Idle()) in lab.events
    assert SessionIdle(session_id=session_id) in lab.events
    assert _answered(lab) == dict.fromkeys(prompts, step.id)
    assert [(await lab.store.input(p)).answer_id for p in prompts] == [step.id] * 3
    assert await lab.store.claim(session_id, ALICE, dead=None) is None


async def test_park_and_rest_are_refused_after_a_new_wake(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(lab.open_state())
    decided = await lab.store.snapshot(claim)
    await lab.store.settle(call.id, completed_result())
    before = await lab.read_everything()
    assert not await lab.store.park(claim, decided.control.wake_seq)
    assert not await lab.store.rest(claim, decided.control.wake_seq, "done", (lab.input(session_id),))
    assert not await lab.store.rest(claim, decided.control.wake_seq, "aborted")
    assert await lab.read_everything() == before
    decided = await lab.store.snapshot(claim)
    assert await lab.store.rest(claim, decided.control.wake_seq, "done")


@pytest.mark.spec("C-06")
async def test_a_park_with_only_async_calls_answers_and_waits(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(lab.open_state(due=lab.clock.now() + 99))
    prompt = (await lab.store.messages(session_id))[0].info.id
    snapshot = await lab.store.snapshot(claim)
    lab.commits.clear()
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    control = await lab.store.control(session_id)
    assert control.state == "idle"
    assert control.owner is None
    assert control.in_turn
    waiting = WaitingAsync(
        pending_id=call.id, tool="build", since=lab.clock.now(), timeout=lab.clock.now() + 99
    )
    assert await lab.store.status(session_id) == waiting
    assert SessionStatus(session_id=session_id, status=waiting) in lab.events
    assert _answered(lab) == {prompt: call.message_id}


@pytest.mark.spec("C-06")
async def test_a_park_with_an_open_ask_answers_no_prompt(lab: Lab) -> None:
    session_id, claim, _call, _ = await lab.open_ask(lab.open_state())
    prompt = (await lab.store.messages(session_id))[0].info.id
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    assert await lab.store.status(session_id) == Busy()
    assert (await lab.store.input(prompt)).answer_id is None
    assert _answered(lab) == {}


async def test_input_after_a_park_goes_on_with_the_same_turn(lab: Lab) -> None:
    session_id, claim, _ = await lab.start_calls(lab.open_state())
    snapshot = await lab.store.snapshot(claim)
    await lab.store.park(claim, snapshot.control.wake_seq)
    later = await lab.prompt(session_id)
    claim = await lab.claim(session_id)
    step = await lab.step(claim)
    assert (await lab.store.control(session_id)).turn == 1
    snapshot = await lab.end(claim, step)
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    assert (await lab.store.input(later)).answer_id == step.id


async def test_unread_input_after_an_error_keeps_the_session_ready(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    later = await lab.prompt(session_id)
    snapshot = await lab.end(claim, step, error=api_error("no", is_retryable=False))
    lab.commits.clear()
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "error")
    control = await lab.store.control(session_id)
    assert control.state == "ready"
    assert not control.in_turn
    assert lab.woken == [session_id]
    assert _answered(lab) == {prompt: step.id}
    claim = await lab.claim(session_id)
    second = await lab.step(claim)
    assert second.started.message.parent_id == later
    assert (await lab.store.control(session_id)).turn == 2


async def test_the_facts_of_a_rest_commit_with_it(lab: Lab) -> None:
    parent, _, (call,) = await lab.start_calls(lab.open_state())
    session_id, _, claim = await lab.claim_prompted()
    snapshot = await lab.end(claim, await lab.step(claim))
    notice = lab.input(parent, "your child is done", source="system")
    lab.commits.clear()
    facts = (lab.settle_fact(call.id, "all green"), notice)
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "done", facts)
    assert len(lab.commits) == 1
    assert result_of(await lab.store.call(call.id)) == Completed("all green")
    assert (await lab.store.input(notice.message.id)).state == "queued"
    assert set(lab.woken) == {parent}
    assert (await lab.store.control(session_id)).state == "idle"


async def test_a_session_that_rests_with_new_input_is_ready_again(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    snapshot = await lab.end(claim, await lab.step(claim))
    lab.commits.clear()
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "done", (lab.input(session_id),))
    control = await lab.store.control(session_id)
    assert control.state == "ready"
    assert not control.in_turn
    assert not [e for e in lab.events if isinstance(e, SessionStatus | SessionIdle)]
    assert session_id in lab.woken


async def test_a_session_rests_despite_facts_about_ended_calls_and_sessions(lab: Lab) -> None:
    _, _, (call,) = await lab.start_calls(lab.open_state())
    await lab.store.settle(call.id, completed_result("first"))
    gone = await lab.session()
    facts = (lab.settle_fact(call.id, "second"), lab.settle_fact(CallId("tool_gone"), "x"), lab.input(gone))
    await lab.store.delete_session(gone)
    _, _, claim = await lab.claim_prompted()
    snapshot = await lab.end(claim, await lab.step(claim))
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "done", facts)
    assert result_of(await lab.store.call(call.id)) == completed_result("first")


async def test_a_blocked_turn_ends_with_its_last_step(lab: Lab) -> None:
    session_id, claim, call, _ = await lab.open_ask()
    prompt = (await lab.store.messages(session_id))[0].info.id
    await lab.store.answer(ask_id(call), Reject())
    snapshot = await lab.store.snapshot(claim)
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "blocked")
    assert (await lab.store.input(prompt)).answer_id == call.message_id
    lease2 = await _next_turn(lab, session_id)
    assert not (await lab.store.snapshot(lease2)).is_blocked


async def _next_turn(lab: Lab, session_id: SessionId) -> Claim:
    await lab.prompt(session_id)
    claim = await lab.claim(session_id)
    await lab.step(claim)
    return claim


@pytest.mark.spec("X-11")
async def test_a_crash_loop_rests_with_an_error_that_answers_all_prompts(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    await lab.step(claim)
    later = await lab.prompt(session_id)
    for _ in range(3):
        claim = await lab.claim(session_id, ALICE, dead=ALICE)
    snapshot = await lab.store.snapshot(claim)
    assert snapshot.in_crash_loop
    lab.commits.clear()
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "crash_loop")
    control = await lab.store.control(session_id)
    assert control.state == "idle"
    assert control.claims == 0
    assert not control.in_turn
    answer_id = (await lab.store.input(prompt)).answer_id
    assert answer_id is not None
    assert _answered(lab) == {prompt: answer_id, later: answer_id}
    answer = (await lab.store.message(answer_id)).info
    assert isinstance(answer, AssistantMessage)
    assert answer.error is not None
    assert "crash_loop" in str(answer.error)
    third = await lab.prompt(session_id)
    claim = await lab.claim(session_id)
    step = await lab.step(claim)
    placed = [e.info.id for e in step.started.tail]
    assert [p for p in placed if p in (prompt, later, third)] == [prompt, later, third]


async def test_settled_calls_let_a_parked_session_go_on(lab: Lab) -> None:
    session_id, claim, (call,) = await lab.start_calls(lab.open_state())
    snapshot = await lab.store.snapshot(claim)
    await lab.store.park(claim, snapshot.control.wake_seq)
    await lab.store.settle(call.id, completed_result())
    claim = await lab.claim(session_id)
    snapshot = await lab.store.snapshot(claim)
    assert snapshot.calls == ()
    assert snapshot.unread == 0
    assert snapshot.step is not None
    assert snapshot.step.finish == "tool-calls"
    assert state_of(await lab.store.call(call.id)) == "Settled"
