"""A step: what it promotes, what it shows, what its end writes down."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import Running
from asyncagents.domain.conversation.failure import api_error
from asyncagents.domain.conversation.message import AssistantMessage
from asyncagents.domain.conversation.part import StepStartPart, TextPart, ToolPart, ToolPending
from asyncagents.domain.conversation.session import Tokens
from asyncagents.domain.event import MessageUpdated, PartUpdated, PromptAnswered, SessionError
from asyncagents.domain.id import SessionId
from asyncagents.domain.step import StepEnd
from asyncagents.engine.decide import is_turn_over
from tests.support.store.lab import SPENT, Lab, Step, completed_result, state_of


@pytest.mark.spec("S-05", "S-12")
async def test_a_step_promotes_unread_input_in_the_order_of_admission(lab: Lab) -> None:
    session_id = await lab.session()
    facts = [lab.input(session_id, f"no. {n}") for n in range(4)]
    admitted = [facts[2], facts[0], facts[3], facts[1]]
    for fact in admitted:
        await lab.store.admit(fact)
    claim = await lab.claim(session_id)
    step = await lab.step(claim)

    placed = [fact.message.id for fact in admitted]
    assert [e.info.id for e in step.started.tail] == placed
    assert [e.info.id for e in await lab.store.history(session_id)] == [*placed, step.id]
    assert await lab.positions(session_id) == [1, 2, 3, 4, 5]
    assert step.started.position == 5
    assert step.started.message.parent_id == placed[-1]
    wire = [e.info.id for e in await lab.store.messages(session_id)]
    assert wire == sorted(wire)
    control = await lab.store.control(session_id)
    assert control.in_turn
    assert control.turn == 1
    assert control.positions == 5
    for fact in admitted:
        row = await lab.store.input(fact.message.id)
        assert row.state == "promoted"
        assert row.turn == 1
        assert row.answer_id is None


async def test_a_step_opens_a_message_with_the_agent_and_model_of_its_prompt(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    lab.commits.clear()
    new = lab.new_step()
    started = await lab.store.start_step(claim, new)
    assert started is not None
    message = started.message
    assert message.id == new.message_id
    assert message.parent_id == prompt
    assert message.agent == "build"
    assert message.model_id == "parrot"
    assert message.provider_id == "scripted"
    assert message.path.cwd == "/work"
    assert message.time.completed is None
    assert message.finish is None
    entry = await lab.store.message(message.id)
    part = StepStartPart(id=new.part_id, session_id=session_id, message_id=message.id)
    assert entry.info == message
    assert entry.parts == (part,)
    assert MessageUpdated(session_id=session_id, info=message) in lab.events
    ((request_id, message_id, state, _, estimated),) = await lab.requests(session_id)
    assert request_id == new.request_id
    assert message_id == message.id
    assert state == "open"
    assert estimated == 1


async def test_the_second_step_of_a_turn_keeps_the_parent_and_reads_new_messages(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    first = await lab.step(claim)
    call = lab.call(first)
    await lab.end(claim, first, call)
    await lab.start(claim, call)
    await lab.store.finish_call(claim, call.id, completed_result())
    second = await lab.step(claim, since=first.started.position)
    assert [e.info.id for e in second.started.tail] == [first.id]
    assert second.started.message.parent_id == prompt
    assert (await lab.store.control(session_id)).turn == 1
    assert await lab.positions(session_id) == [1, 2, 3]


async def test_input_that_arrives_within_a_turn_is_answered_by_its_next_step(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    first = await lab.step(claim)
    later = await lab.prompt(session_id, "and this")
    snapshot = await lab.end(claim, first)
    assert snapshot.unread == 1
    second = await lab.step(claim, since=first.started.position + 1)
    assert [e.info.id for e in second.started.tail] == [later]
    assert second.started.message.parent_id == later
    assert (await lab.store.input(later)).turn == (await lab.store.control(session_id)).turn == 1


async def test_a_new_turn_begins_at_the_first_step_after_a_rest(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    snapshot = await lab.end(claim, await lab.step(claim))
    assert await lab.store.rest(claim, snapshot.control.wake_seq, "done")
    before = await lab.store.control(session_id)
    assert not before.in_turn
    assert before.turn == 1
    await lab.prompt(session_id)
    claim = await lab.claim(session_id)
    assert (await lab.store.snapshot(claim)).last is None
    await lab.step(claim)
    control = await lab.store.control(session_id)
    assert control.in_turn
    assert control.turn == 2
    assert control.turn_rev > before.turn_rev


async def test_a_step_shows_open_calls_as_pending_from_then_on(lab: Lab) -> None:
    session_id, claim, (waits, settled) = await lab.start_calls(lab.open_state(), lab.open_state())
    await lab.store.settle(settled.id, completed_result())
    await lab.prompt(session_id)
    step = await lab.step(claim)
    assert step.started.shown == frozenset({waits.part_id})
    assert (await lab.store.call(waits.id)).shown_pending
    assert not (await lab.store.call(settled.id)).shown_pending
    await lab.end(claim, step)
    await lab.store.settle(waits.id, completed_result())
    later = await lab.step(claim)
    assert later.started.shown == frozenset({waits.part_id})


@pytest.mark.spec("C-10")
async def test_a_cancelled_turn_starts_no_step_and_promotes_nothing(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    await lab.end(claim, await lab.step(claim))
    waiting = await lab.prompt(session_id)
    await lab.store.cancel(session_id)
    before = await lab.read_everything()
    assert await lab.store.start_step(claim, lab.new_step()) is None
    assert await lab.read_everything() == before
    assert (await lab.store.input(waiting)).state == "aborted"


@pytest.mark.spec("C-10")
async def test_a_cancel_before_the_first_step_stops_it_too(lab: Lab) -> None:
    session_id, prompt, claim = await lab.claim_prompted()
    await lab.store.cancel(session_id)
    before = await lab.read_everything()
    assert await lab.store.start_step(claim, lab.new_step()) is None
    assert await lab.read_everything() == before
    assert (await lab.store.input(prompt)).state == "aborted"


@pytest.mark.spec("S-03")
async def test_text_is_kept_as_it_streams_and_published_when_asked(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    lab.commits.clear()
    part = lab.text(step, "")
    await lab.write(claim, part)
    assert [event.part for event in lab.events if isinstance(event, PartUpdated)] == [part]
    longer = TextPart(id=part.id, session_id=session_id, message_id=step.id, text="Once upon", time=part.time)
    lab.commits.clear()
    cursor = await lab.store.cursor()
    await lab.write(claim, longer, published=False)
    assert lab.events == []
    assert (await lab.store.message(step.id)).parts[1] == longer
    assert longer in [e.part for e in (await lab.store.feed(cursor)).events if isinstance(e, PartUpdated)]


@pytest.mark.spec("S-03")
async def test_a_part_never_moves_to_another_message(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    first = await lab.step(claim)
    part = lab.text(first, "mine")
    await lab.write(claim, part)
    await lab.end(claim, first, finish="tool-calls")
    second = await lab.step(claim)
    moved = TextPart(id=part.id, session_id=session_id, message_id=second.id, text="yours")
    with pytest.raises(Exception, match=part.id):
        await lab.write(claim, moved)
    assert part in (await lab.store.message(first.id)).parts


async def test_the_end_of_a_step_commits_its_message_parts_and_calls(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    calls = [lab.call(step), lab.call(step)]
    end = lab.step_end(step, *calls)
    lab.commits.clear()
    snapshot = await lab.store.finish_step(claim, end)

    again = replace(calls[1], repeats=1)
    assert snapshot.calls == snapshot.requested_calls == (calls[0], again)
    assert snapshot.step == end.message
    assert await lab.store.calls(session_id) == (calls[0], again)
    entry = await lab.store.message(step.id)
    assert entry.info == end.message
    pending = [p for p in entry.parts if isinstance(p, ToolPart)]
    assert [p.id for p in pending] == [c.part_id for c in calls]
    assert all(isinstance(p.state, ToolPending) for p in pending)
    assert [row[2] for row in await lab.requests(session_id)] == ["done"]
    info = await lab.store.session(session_id)
    assert info.tokens == SPENT
    assert info.cost == 0
    assert len(lab.commits) == 1


async def test_ending_a_step_twice_changes_nothing(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    call = lab.call(step)
    end = lab.step_end(step, call)
    await lab.store.finish_step(claim, end)
    await lab.start(claim, call)
    before = await lab.read_everything()
    snapshot = await lab.store.finish_step(claim, end)
    assert await lab.read_everything() == before
    assert [state_of(c) for c in snapshot.calls] == ["Running"]
    assert (await lab.store.session(session_id)).tokens == SPENT


async def test_a_step_without_reported_tokens_is_charged_as_estimated(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.end(claim, step, tokens=None)
    ((_, _, state, _, estimated),) = await lab.requests(session_id)
    assert state == "done"
    assert estimated == 1
    tokens = (await lab.store.session(session_id)).tokens
    assert tokens is not None
    assert tokens.input > 0


async def test_a_failed_step_is_published_as_an_error(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    error = api_error("overloaded", is_retryable=True, status_code=529)
    lab.commits.clear()
    snapshot = await lab.end(claim, step, error=error)
    assert SessionError(session_id=session_id, error=error) in lab.events
    assert snapshot.step is not None
    assert snapshot.step.error == error
    info = (await lab.store.message(step.id)).info
    assert isinstance(info, AssistantMessage)
    assert info.error == error


async def test_the_token_estimate_grows_with_the_length_of_the_prompt(lab: Lab) -> None:
    estimates = []
    for text in ("short", "long " * 1_000):
        session_id = await lab.session()
        await lab.prompt(session_id, text)
        claim = await lab.claim(session_id)
        await lab.end(claim, await lab.step(claim), tokens=None)
        tokens = (await lab.store.session(session_id)).tokens
        assert tokens is not None
        estimates.append(tokens.input)
    assert estimates[0] < 100 < 1_000 < estimates[1]
    assert Tokens.zero().input == 0


async def test_calls_start_only_after_the_step_that_made_them_is_committed(lab: Lab) -> None:
    _, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    call = lab.call(step)
    with pytest.raises(Exception, match=call.id):
        await lab.move(claim, call, Running(claim.fence))


def going_on(lab: Lab, session_id: SessionId, step: Step) -> StepEnd:
    """The end of a step that is not to be the last one."""
    more = replace(lab.input(session_id, "go on", key="more"), source="system")
    return replace(lab.step_end(step), over=is_turn_over, goes_on=more)


@pytest.mark.spec("C-08")
async def test_input_that_continues_a_turn_commits_with_its_last_step(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    after = await lab.store.finish_step(claim, going_on(lab, session_id, step))
    again = await lab.store.snapshot(claim)

    assert after.queued == 1
    assert after.control.in_turn
    assert after.control.state == "running"
    assert again.queued == 1
    assert not [event for event in lab.events if isinstance(event, PromptAnswered)]


@pytest.mark.spec("C-08", "C-10")
async def test_no_continuation_is_added_to_a_cancelled_or_continuing_turn(lab: Lab) -> None:
    cancelled, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.store.cancel(cancelled)
    after = await lab.store.finish_step(claim, going_on(lab, cancelled, step))
    assert after.queued == 0
    assert after.is_cancelled

    spoken_to, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.prompt(spoken_to, "wait")
    after = await lab.store.finish_step(claim, going_on(lab, spoken_to, step))
    assert after.queued == 1
    assert await lab.store.count_inputs(spoken_to, "more") == 0


@pytest.mark.spec("C-10")
async def test_input_added_by_a_step_is_dropped_if_its_turn_was_cancelled(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await lab.store.cancel(session_id)
    again = replace(lab.input(session_id, "in its form, please", key="again"), source="system")
    after = await lab.store.finish_step(claim, replace(lab.step_end(step), facts=(again,)))
    assert await lab.store.rest(claim, after.control.wake_seq, "aborted")
    assert (await lab.store.control(session_id)).state == "idle"
