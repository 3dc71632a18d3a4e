"""A summary: asked for, cut off, written, failed; what it must not lose; and output that is left out."""

import pytest
from msgspec.structs import replace

from asyncagents.domain.call.call import Completed
from asyncagents.domain.conversation.failure import context_overflow_error
from asyncagents.domain.conversation.message import UserMessage
from asyncagents.domain.conversation.part import CompactionPart, TextPart, ToolCompleted, ToolPart
from asyncagents.domain.conversation.todo import Todo
from asyncagents.domain.event import SessionCompacted
from asyncagents.domain.fact import WriteTodos
from asyncagents.domain.id import MessageId, PartId
from asyncagents.domain.session_state import SUMMARY_WANTED, Claim, Snapshot
from asyncagents.engine.decide import CallModel, Rest, decide
from asyncagents.errors import ClaimLost
from tests.support.store.lab import ALICE, BOB, Lab
from tests.support.store.row import rewrite_call
from tests.support.store.step import answer_first_prompt, build_summary_end, start_summary


async def wish(lab: Lab, claim: Claim) -> MessageId:
    fact = lab.input(claim.session_id, "", source="compaction")
    part = CompactionPart(
        id=lab.ids.part(), session_id=claim.session_id, message_id=fact.message.id, auto=False
    )
    await lab.store.admit(replace(fact, parts=(part,)))
    return fact.message.id


@pytest.mark.spec("S-09")
async def test_a_step_without_room_becomes_a_request_for_a_summary(lab: Lab) -> None:
    claim, _ = await answer_first_prompt(lab)
    step = await start_summary(lab, claim, room=1)
    message = step.started.message
    assert message.summary
    assert message.agent == message.mode == "compaction"
    asked = await lab.store.message(message.parent_id)
    assert [type(part) for part in asked.parts] == [CompactionPart]
    control = await lab.store.control(claim.session_id)
    assert control.compacting == step.started.position - 1


@pytest.mark.spec("S-09")
async def test_no_summary_is_requested_when_there_is_nothing_to_summarise(lab: Lab) -> None:
    _, _, claim = await lab.claim_prompted()
    step = await start_summary(lab, claim, room=1)
    assert step.started.message.summary is None


@pytest.mark.spec("S-09")
async def test_a_step_that_fills_the_window_wants_a_summary_before_the_next(lab: Lab) -> None:
    _, _, claim = await lab.claim_prompted()
    step = await start_summary(lab, claim)
    after = await lab.store.finish_step(claim, replace(lab.step_end(step), full=True))
    assert after.control.compacting == SUMMARY_WANTED
    assert decide(after) == Rest("done"), "an answer that is complete stays the last word of its turn"
    await lab.prompt(claim.session_id, "more")
    assert (await start_summary(lab, claim)).started.message.summary


@pytest.mark.spec("S-09")
async def test_a_step_refused_for_its_length_is_hidden_and_wants_a_summary(lab: Lab) -> None:
    claim, _ = await answer_first_prompt(lab)
    step = await start_summary(lab, claim)
    end = replace(lab.step_end(step, error=context_overflow_error("too long")), full=True)
    after = await lab.store.finish_step(claim, end)
    assert after.control.compacting == SUMMARY_WANTED
    assert isinstance(after.last, UserMessage)
    assert decide(after) == CallModel()


@pytest.mark.spec("S-09")
async def test_a_first_step_that_is_too_long_is_an_error(lab: Lab) -> None:
    _, _, claim = await lab.claim_prompted()
    step = await start_summary(lab, claim)
    end = replace(lab.step_end(step, error=context_overflow_error("too long")), full=True)
    after = await lab.store.finish_step(claim, end)
    assert after.control.compacting == 0
    assert decide(after) == Rest("error")


@pytest.mark.spec("S-10")
async def test_a_summary_replaces_earlier_messages_and_the_turn_goes_on(lab: Lab) -> None:
    claim, _ = await answer_first_prompt(lab)
    step = await start_summary(lab, claim, room=1)
    after = await lab.store.finish_summary(claim, build_summary_end(lab, step))
    assert decide(after) == CallModel()
    assert after.control.compacting == 0
    assert after.control.summary == step.started.position
    history = await lab.store.model_history(claim.session_id, whole=True)
    assert [entry.text for entry in history.head] == ["", "All that was."]
    texts = [part.text for entry in history.entries for part in entry.parts if isinstance(part, TextPart)]
    assert texts == ["All that was.", "Go on."], "the first is read as the head, not where it stands"
    assert SessionCompacted(session_id=claim.session_id) in lab.events


@pytest.mark.spec("S-10")
async def test_the_tail_begins_with_the_chosen_message(lab: Lab) -> None:
    claim, first = await answer_first_prompt(lab)
    step = await start_summary(lab, claim, room=1)
    await lab.store.finish_summary(claim, build_summary_end(lab, step, tail=first))
    history = await lab.store.model_history(claim.session_id, whole=True)
    assert history.entries[0].info.id == first
    (wished,) = [part for part in history.head[0].parts if isinstance(part, CompactionPart)]
    assert wished.tail_start_id == first
    assert not [
        part for part in history.head[0].parts if isinstance(part, TextPart) and "'second'" in part.text
    ]


@pytest.mark.spec("S-10")
async def test_open_calls_and_todos_are_written_beside_the_summary_request(lab: Lab) -> None:
    _, claim, (waits, runs) = await lab.start_calls(lab.open_state(), None)
    todos = (
        Todo(content="mend it", status="pending", priority="high", id="1"),
        Todo(content="over", status="completed", priority="high", id="2"),
    )
    await lab.start(claim, runs)
    facts = (WriteTodos(claim.session_id, todos),)
    await lab.store.finish_call(claim, runs.id, Completed("noted"), facts)
    step = await start_summary(lab, claim, room=1)
    after = await lab.store.finish_summary(claim, build_summary_end(lab, step))
    asked = await lab.store.message(step.started.message.parent_id)
    assert [part.text for part in asked.parts if isinstance(part, TextPart)] == [
        f"open: ['{waits.tool}'] ['mend it'] 'hello'"
    ]
    assert [call.shown_pending for call in after.calls] == [True]


async def test_finishing_a_summary_twice_changes_nothing(lab: Lab) -> None:
    claim, _ = await answer_first_prompt(lab)
    step = await start_summary(lab, claim, room=1)
    once = build_summary_end(lab, step)
    first: Snapshot = await lab.store.finish_summary(claim, once)
    again = await lab.store.finish_summary(claim, once)
    assert again.control.positions == first.control.positions
    assert again.info is not None
    assert first.info is not None
    assert again.info.tokens == first.info.tokens


async def test_a_summary_that_failed_changes_nothing_for_the_model(lab: Lab) -> None:
    claim, _ = await answer_first_prompt(lab)
    step = await start_summary(lab, claim, room=1)
    after = await lab.store.finish_summary(claim, build_summary_end(lab, step, fails=True))
    assert decide(after) == Rest("error")
    assert after.control.compacting == 0
    assert after.control.summary == 0
    assert after.control.tail == 0
    assert not (await lab.store.model_history(claim.session_id, whole=True)).head


@pytest.mark.spec("S-10")
async def test_a_summary_that_was_cut_off_is_asked_for_again(lab: Lab) -> None:
    claim, _ = await answer_first_prompt(lab)
    first = await start_summary(lab, claim, room=1)
    claim = await lab.claim(claim.session_id, BOB, dead=ALICE)
    second = await start_summary(lab, claim)
    assert second.started.message.summary
    assert second.started.message.parent_id == first.started.message.parent_id


@pytest.mark.spec("S-10")
async def test_a_prompt_that_requests_a_summary_is_answered_by_it(lab: Lab) -> None:
    session_id, _, claim = await lab.claim_prompted()
    await lab.end(claim, await lab.step(claim))
    await lab.store.rest(claim, 10**6, "done")
    wished = await wish(lab, claim)
    claim = await lab.claim(session_id)
    step = await start_summary(lab, claim)
    after = await lab.store.finish_summary(claim, build_summary_end(lab, step))
    assert decide(after) == Rest("done")
    await lab.store.rest(claim, 10**6, "done")
    assert (await lab.store.input(wished)).answer_id == step.id


async def test_an_answered_prompt_keeps_its_answer_when_a_summary_follows(
    lab: Lab,
) -> None:
    _, prompt, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    await wish(lab, claim)
    await lab.end(claim, step)
    summary = await start_summary(lab, claim)
    assert summary.started.message.summary
    await lab.store.finish_summary(claim, build_summary_end(lab, summary))
    await lab.store.rest(claim, 10**6, "done")
    assert (await lab.store.input(prompt)).answer_id == step.id


async def test_the_end_of_a_turn_forgets_a_summary_that_was_not_written(lab: Lab) -> None:
    claim, _ = await answer_first_prompt(lab)
    await start_summary(lab, claim, room=1)
    await lab.store.cancel(claim.session_id)
    claim = await lab.claim(claim.session_id, BOB, dead=ALICE)
    await lab.store.rest(claim, 10**6, "aborted")
    assert (await lab.store.control(claim.session_id)).compacting == 0


async def test_a_run_that_lost_its_claim_writes_no_summary_and_prunes_nothing(lab: Lab) -> None:
    claim, _ = await answer_first_prompt(lab)
    step = await start_summary(lab, claim, room=1)
    await lab.claim(claim.session_id, BOB, dead=ALICE)
    with pytest.raises(ClaimLost):
        await lab.store.finish_summary(claim, build_summary_end(lab, step))
    with pytest.raises(ClaimLost):
        await lab.store.prune(claim, [PartId("prt_x")])


@pytest.mark.spec("S-11")
async def test_pruned_output_is_marked_and_stays_stored(lab: Lab) -> None:
    _, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    call = lab.call(step)
    await lab.end(claim, step, call)
    await lab.store.finish_call(claim, call.id, Completed("much"))
    await lab.store.prune(claim, [call.part_id, PartId("prt_nobody")])
    (part,) = [p for p in (await lab.store.message(step.id)).parts if isinstance(p, ToolPart)]
    assert isinstance(part.state, ToolCompleted)
    assert part.state.output == "much"
    assert part.state.time.compacted == lab.clock.now()
    assert (await lab.store.call(call.id)).compacted == lab.clock.now()


@pytest.mark.spec("S-11")
async def test_output_of_an_unreadable_call_is_pruned_too(lab: Lab) -> None:
    """A newer program settled it; others are not kept from being left out by it."""
    _, _, claim = await lab.claim_prompted()
    step = await lab.step(claim)
    calls = lab.call(step), lab.call(step)
    await lab.end(claim, step, *calls)
    for call in calls:
        await lab.store.finish_call(claim, call.id, Completed("much"))
    strange = b'{"state":{"type":"levitating"}}'
    await rewrite_call(lab, await lab.store.call(calls[0].id), strange, 99)
    await lab.store.prune(claim, [call.part_id for call in calls])
    parts = [p for p in (await lab.store.message(step.id)).parts if isinstance(p, ToolPart)]
    states = [part.state for part in parts]
    assert len(states) == 2
    assert all(isinstance(s, ToolCompleted) and s.time.compacted == lab.clock.now() for s in states)
