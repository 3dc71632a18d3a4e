"""External agents: the session they work in, and the calls that they execute and we observe."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.agent.external_session import ExternalSession, PromptUnderWay
from asyncagents.domain.call.call import (
    ABORTED,
    REJECTED,
    Always,
    Call,
    Completed,
    Failed,
    Once,
    Open,
    Reject,
    Reply,
    Running,
    Settled,
    render,
)
from asyncagents.domain.conversation.failure import unknown_error
from asyncagents.domain.conversation.part import ToolRunning
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import PermissionAsked, PermissionReplied
from asyncagents.domain.fact import WriteTodos
from asyncagents.domain.id import SessionId
from asyncagents.domain.session_state import Claim
from asyncagents.errors import ClaimLost, Conflict, InvalidInput
from tests.support.store.lab import ALICE, BOB, Lab, Step, ask_id, result_of, state_of

LEFT = "The agent ended its turn without a result of this call."


def external(session_id: SessionId, step: Step | None = None) -> ExternalSession:
    prompt = PromptUnderWay(step_id=step.id, sent=7) if step else None
    return ExternalSession(
        session_id=session_id,
        external_id="ext-1",
        agent="reviewer",
        command=("opencode", "acp"),
        loads=True,
        prompts=1 if step else 0,
        prompt=prompt,
    )


async def begin(lab: Lab) -> tuple[SessionId, Claim, Step]:
    session_id, _, claim = await lab.claim_prompted()
    return session_id, claim, await lab.step(claim)


def observed(lab: Lab, step: Step, claim: Claim, tool: str = "external:execute") -> Call:
    call = lab.call(step, tool=tool, given={"command": "make"})
    return replace(call, observed=True, state=Running(claim.fence))


async def begin_call(lab: Lab) -> tuple[SessionId, Claim, Step, Call]:
    session_id, claim, step = await begin(lab)
    call = observed(lab, step, claim)
    await lab.store.external.observe(claim, (call,))
    return session_id, claim, step, call


async def finish(lab: Lab, claim: Claim, step: Step) -> None:
    await lab.store.finish_step(claim, replace(lab.step_end(step), unfinished=LEFT))


@pytest.mark.spec("X-03")
async def test_an_external_session_is_kept_until_its_session_is_deleted(lab: Lab) -> None:
    session_id, claim, step = await begin(lab)
    assert await lab.store.external.session(session_id) is None
    for known in (external(session_id), external(session_id, step)):
        await lab.store.external.save_session(claim, known)
        assert await lab.store.external.session(session_id) == known
    await lab.store.delete_session(session_id)
    assert await lab.store.external.session(session_id) is None


@pytest.mark.spec("X-03")
async def test_the_end_of_a_step_ends_its_prompt_and_adds_the_cost(lab: Lab) -> None:
    session_id, claim, step = await begin(lab)
    await lab.store.external.save_session(claim, external(session_id, step))
    end = replace(lab.step_end(step), unfinished=LEFT)
    await lab.store.finish_step(claim, replace(end, message=replace(end.message, cost=0.5)))
    after = await lab.store.external.session(session_id)
    assert after == replace(external(session_id, step), prompt=None, cost=0.5, introduced=True)


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("has_output", [True, False])
async def test_a_failed_step_introduces_a_session_only_if_it_had_output(lab: Lab, has_output: bool) -> None:
    session_id, claim, step = await begin(lab)
    await lab.store.external.save_session(claim, external(session_id, step))
    end = replace(lab.step_end(step), unfinished=LEFT, has_output=has_output)
    failed = replace(end, message=replace(end.message, error=unknown_error("It ended.")))
    await lab.store.finish_step(claim, failed)
    after = await lab.store.external.session(session_id)
    assert after is not None
    assert after.introduced is has_output


@pytest.mark.spec("X-03")
async def test_a_crash_keeps_the_prompt_under_way_and_an_abort_ends_it(lab: Lab) -> None:
    session_id, claim, step = await begin(lab)
    await lab.store.external.save_session(claim, external(session_id, step))
    claim = await lab.claim(session_id, BOB, dead=ALICE)
    assert await lab.store.external.session(session_id) == external(session_id, step)
    assert await lab.store.rest(claim, 10**6, "aborted")
    after = await lab.store.external.session(session_id)
    assert after is not None
    assert after.prompt is None


async def test_a_run_that_lost_its_claim_writes_nothing(lab: Lab) -> None:
    session_id, claim, step, call = await begin_call(lab)
    await lab.claim(session_id, BOB, dead=ALICE)
    with pytest.raises(ClaimLost):
        await lab.store.external.save_session(claim, external(session_id, step))
    with pytest.raises(ClaimLost):
        await lab.store.external.observe(claim, (call,))
    with pytest.raises(ClaimLost):
        await lab.store.external.ask(claim, call, lab.ask(session_id))


@pytest.mark.spec("X-03")
async def test_an_observed_call_runs_with_its_title_and_is_settled_once(lab: Lab) -> None:
    _, claim, _, call = await begin_call(lab)
    titled = replace(call, state=Running(claim.fence, title="make all", metadata={"kind": "execute"}))
    await lab.store.external.observe(claim, (titled,))
    stored = await lab.store.call(call.id)
    shown = render(stored).state
    assert isinstance(shown, ToolRunning)
    assert (shown.title, shown.metadata) == ("make all", {"kind": "execute"})
    assert stored.started == lab.clock.now()
    for result in (Completed("built"), Failed("late")):
        await lab.store.external.observe(claim, (replace(call, state=Settled(result, lab.clock.now())),))
    await lab.store.external.observe(claim, (titled,))
    assert result_of(await lab.store.call(call.id)) == Completed("built")


async def test_todos_are_written_with_observed_calls(lab: Lab) -> None:
    session_id, claim, _ = await begin(lab)
    plan = (Todo(id="todo_1", content="Look", status="pending", priority="high"),)
    await lab.store.external.observe(claim, (), (WriteTodos(session_id, plan),))
    assert await lab.store.todos(session_id) == plan


@pytest.mark.spec("X-03")
async def test_calls_without_a_result_are_settled_with_the_step(lab: Lab) -> None:
    session_id, claim, step, call = await begin_call(lab)
    asking = observed(lab, step, claim)
    await lab.store.external.ask(claim, asking, lab.ask(session_id))
    await finish(lab, claim, step)
    assert result_of(await lab.store.call(call.id)) == Failed(LEFT)
    assert result_of(await lab.store.call(asking.id)) == Failed(LEFT)
    assert await lab.store.asks() == ()


@pytest.mark.spec("X-03")
async def test_an_allowed_call_goes_on_and_is_never_requested(lab: Lab) -> None:
    session_id, claim, _, call = await begin_call(lab)
    asking = await lab.store.external.ask(claim, call, lab.ask(session_id))
    assert isinstance(asking.state, Open)
    await lab.store.external.observe(claim, (call,))
    assert state_of(await lab.store.call(call.id)) == "Open"
    await lab.store.answer(ask_id(asking), Once())
    after = await lab.store.call(call.id)
    assert (after.state, after.granted) == (Running(claim.fence), ("h1",))
    snapshot = await lab.store.snapshot(claim)
    assert snapshot.requested_calls == ()


async def test_an_approval_lets_all_covered_calls_of_external_agents_go_on(lab: Lab) -> None:
    session_id, claim, step, call = await begin_call(lab)
    other = observed(lab, step, claim)
    first = await lab.store.external.ask(claim, call, lab.ask(session_id))
    await lab.store.external.ask(claim, other, lab.ask(session_id))
    await lab.store.answer(ask_id(first), Always())
    assert (await lab.store.call(other.id)).state == Running(claim.fence)


async def test_the_arguments_of_an_observed_call_cannot_be_changed(lab: Lab) -> None:
    session_id, claim, _, call = await begin_call(lab)
    asking = await lab.store.external.ask(claim, call, lab.ask(session_id))
    with pytest.raises(InvalidInput):
        await lab.store.answer(ask_id(asking), Once({"command": "rm"}))


async def test_a_call_that_its_agent_ends_asks_no_more(lab: Lab) -> None:
    session_id, claim, _, call = await begin_call(lab)
    asking = await lab.store.external.ask(claim, call, lab.ask(session_id))
    lab.commits.clear()
    await lab.store.external.observe(claim, (replace(call, state=Settled(Failed("No."), 1)),))
    assert any(isinstance(event, PermissionReplied) for event in lab.events)
    with pytest.raises(Conflict):
        await lab.store.answer(ask_id(asking), Once())


async def crash(lab: Lab, session_id: SessionId) -> tuple[Claim, Step]:
    claim = await lab.claim(session_id, BOB, dead=ALICE)
    return claim, await lab.step(claim)


@pytest.mark.spec("X-03")
async def test_an_answer_before_a_crash_answers_the_same_ask_after_it_once(lab: Lab) -> None:
    session_id, claim, _, call = await begin_call(lab)
    first = await lab.store.external.ask(claim, call, lab.ask(session_id))
    await lab.store.answer(ask_id(first), Once())
    claim, step = await crash(lab, session_id)
    again, third = observed(lab, step, claim), observed(lab, step, claim)
    lab.commits.clear()
    answered = await lab.store.external.ask(claim, again, lab.ask(session_id))
    assert (answered.state, answered.reply) == (Running(claim.fence), Once())
    assert not any(isinstance(event, PermissionAsked) for event in lab.events)
    assert isinstance((await lab.store.external.ask(claim, third, lab.ask(session_id))).state, Open)


@pytest.mark.spec("X-03")
@pytest.mark.parametrize("reply", [Once(), Reject("no")])
async def test_an_answer_that_was_given_to_its_agent_answers_no_other_ask(lab: Lab, reply: Reply) -> None:
    session_id, claim, _, call = await begin_call(lab)
    first = await lab.store.external.ask(claim, call, replace(lab.ask(session_id), blocks=False))
    await lab.store.answer(ask_id(first), reply)
    given = await lab.store.external.take_answer(claim, call.id)
    assert given.reply == reply
    assert await lab.store.external.take_answer(claim, call.id) == given
    claim, step = await crash(lab, session_id)
    again = await lab.store.external.ask(claim, observed(lab, step, claim), lab.ask(session_id))
    assert isinstance(again.state, Open)


async def test_the_feed_has_an_answer_that_was_given_to_its_agent_as_it_was(lab: Lab) -> None:
    session_id, claim, _, call = await begin_call(lab)
    first = await lab.store.external.ask(claim, call, replace(lab.ask(session_id), blocks=False))
    await lab.store.answer(ask_id(first), Reject("no"))
    cursor = (await lab.store.feed()).cursor
    await lab.store.external.take_answer(claim, call.id)
    replies = [e for e in (await lab.store.feed(cursor)).events if isinstance(e, PermissionReplied)]
    assert [each.reply for each in replies] == ["reject"]


async def test_an_open_ask_has_no_answer_to_take(lab: Lab) -> None:
    session_id, claim, _, call = await begin_call(lab)
    asking = await lab.store.external.ask(claim, call, lab.ask(session_id))
    assert await lab.store.external.take_answer(claim, call.id) == asking
    await lab.store.answer(ask_id(asking), Once())
    claim, step = await crash(lab, session_id)
    again = await lab.store.external.ask(claim, observed(lab, step, claim), lab.ask(session_id))
    assert again.reply == Once()


@pytest.mark.spec("X-03")
async def test_a_rejection_before_a_crash_rejects_the_same_ask_after_it(lab: Lab) -> None:
    session_id, claim, _, call = await begin_call(lab)
    first = await lab.store.external.ask(claim, call, replace(lab.ask(session_id), blocks=False))
    await lab.store.answer(ask_id(first), Reject())
    claim, step = await crash(lab, session_id)
    other = replace(observed(lab, step, claim), input={"command": "ls"})
    again = observed(lab, step, claim)
    assert isinstance((await lab.store.external.ask(claim, other, lab.ask(session_id))).state, Open)
    answered = await lab.store.external.ask(claim, again, lab.ask(session_id))
    assert result_of(answered) == Failed(REJECTED)


@pytest.mark.spec("X-03")
async def test_an_ask_stays_open_over_a_crash_and_its_answer_leaves_an_abandoned_call(lab: Lab) -> None:
    session_id, claim, _, call = await begin_call(lab)
    asking = await lab.store.external.ask(claim, call, lab.ask(session_id))
    claim = await lab.claim(session_id, BOB, dead=ALICE)
    snapshot = await lab.store.snapshot(claim)
    assert [each.id for each in snapshot.blocking_calls] == [call.id]
    assert await lab.store.park(claim, snapshot.control.wake_seq)
    await lab.store.answer(ask_id(asking), Once())
    claim = await lab.claim(session_id)
    snapshot = await lab.store.snapshot(claim)
    assert [each.id for each in snapshot.abandoned_calls] == [call.id]


async def test_an_abort_settles_observed_calls(lab: Lab) -> None:
    _, claim, _, call = await begin_call(lab)
    assert await lab.store.rest(claim, 10**6, "aborted")
    assert result_of(await lab.store.call(call.id)) == Failed(ABORTED)


@pytest.mark.spec("X-03")
async def test_an_answer_in_a_later_run_leaves_an_abandoned_call_too(lab: Lab) -> None:
    session_id, claim, _, call = await begin_call(lab)
    asking = await lab.store.external.ask(claim, call, lab.ask(session_id))
    claim = await lab.claim(session_id, BOB, dead=ALICE)
    await lab.store.answer(ask_id(asking), Once())
    snapshot = await lab.store.snapshot(claim)
    assert [each.id for each in snapshot.abandoned_calls] == [call.id]
    assert snapshot.executing_calls == ()
